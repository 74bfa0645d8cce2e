import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DOCUMENT, OWN_ERROR, TASK_TOOL } from '../../fixtures/matrix/behaviour.ts';
import { type Feature, impossible } from './compatibility.ts';
import { attempt, type Json, type MatrixClient } from './matrix-client.ts';
import { isStateless, type MatrixRevision } from './revisions.ts';

/** One client in front of one server: where a cell is tried. */
export interface Cell {
  readonly client: MatrixClient;
  readonly server: MatrixRevision;
  /** The name of the server at the gateway. */
  readonly name: string;
  /** On `/mcp`, where the server is one of two and its names are prefixed. */
  readonly aggregate: boolean;
  /** For files in which a server reports what it cannot report otherwise. */
  readonly folder: string;
}

let cells = 0;

/** Words that no other cell uses. */
function unique(): string {
  return `words-${++cells}`;
}

function exposed({ name: server, aggregate }: Cell, name: string): string {
  return aggregate ? `${server}__${name}` : name;
}

function call(cell: Cell, name: string, args: Json = {}, meta?: Json): Promise<Json> {
  const params = { name: exposed(cell, name), arguments: args, ...(meta === undefined ? {} : { _meta: meta }) };
  return cell.client.request('tools/call', params);
}

async function callText(cell: Cell, name: string, args: Json = {}, meta?: Json): Promise<string> {
  return (await call(cell, name, args, meta)).content[0].text;
}

/** All pages, one by one; `visit` may look at each. */
async function pages(client: MatrixClient, kind: string, key: string): Promise<Json[][]> {
  const found: Json[][] = [];
  for (let cursor: string | undefined; ; ) {
    const page: Json = await client.request(kind, cursor === undefined ? {} : { cursor });
    found.push(page[key]);
    if (page.nextCursor === undefined) return found;
    assert.ok(found.length < 100, 'pages without end');
    cursor = page.nextCursor;
  }
}

/** The URI of the server's one document at the endpoint. */
async function documentUri(cell: Cell): Promise<string> {
  if (!cell.aggregate) return DOCUMENT;
  const listed = (await pages(cell.client, 'resources/list', 'resources')).flat();
  const uris = listed.filter(({ uri }) => uri === DOCUMENT || uri.includes(cell.name)).map(({ uri }) => uri);
  const texts = await Promise.all(uris.map((uri) => attempt(cell.client.request('resources/read', { uri }))));
  assert.ok(
    texts.every(({ result }) => result?.contents[0].text === 'the document'),
    JSON.stringify(texts),
  );
  return uris.find((uri) => uri !== DOCUMENT) ?? DOCUMENT;
}

const ANSWERS: Readonly<Record<string, (words: string) => Json>> = {
  'sampling/createMessage': (words) => ({
    role: 'assistant',
    content: { type: 'text', text: `answer to ${words}` },
    model: 'matrix',
  }),
  'elicitation/create': (words) => ({ action: 'accept', content: { said: `answer to ${words}` } }),
  'roots/list': (words) => ({ roots: [{ uri: `file:///${words}`, name: words }] }),
};

/** The tool asks, the client sees every word of the question, the tool gets every word of the answer. */
async function asks(cell: Cell, feature: Feature, tool: string, methods: readonly string[]): Promise<void> {
  const { client, server } = cell;
  const words = unique();
  const before = client.asked.length;
  client.answering = (method, params) => {
    const answer = ANSWERS[method]!(words);
    return params?.mode === 'url' ? { action: 'accept' } : answer;
  };
  const met = await attempt(call(cell, tool, { text: words }));
  const asked = client.asked.slice(before);
  const exception = impossible(feature, client.revision, server);
  if (exception !== null) {
    assert.equal(codeOf(met), exception.code, JSON.stringify(met));
    const undeclared = asked.filter(({ method }) => method === 'elicitation/create');
    assert.deepEqual(undeclared, [], 'asked what the client did not declare');
    // Other requests came before the answer, but their handlers may run only now: the next cell must not count them.
    await new Promise((done) => setImmediate(done));
    return;
  }
  assert.equal(met.error, undefined, JSON.stringify(met));
  const answers: Json[] = Object.values(JSON.parse(met.result.content[0].text));
  const expected = methods.map((method) => (tool === 'url' ? { action: 'accept' } : ANSWERS[method]!(words)));
  assert.deepEqual(answers, expected);
  assert.deepEqual(asked.map(({ method }) => method).sort(), [...methods].sort());
  for (const { method, params } of asked) {
    if (method !== 'roots/list') assert.ok(JSON.stringify(params).includes(words), JSON.stringify(params));
    if (tool === 'url') assert.equal(params.url, `https://example.com/consent?of=${words}`);
  }
}

/** On `/mcp`, stateful clients get the gateway's own failures as tool results (S2.31). */
function codeOf({ result, error }: { result?: Json; error?: Json }): number | undefined {
  return error?.code ?? result?._meta?.['trunkline/error']?.code;
}

/** Waits for the file that the server writes, and returns its JSON. */
async function appeared(file: string): Promise<Json> {
  while (!existsSync(file)) await new Promise((done) => setTimeout(done, 5));
  return JSON.parse(readFileSync(file, 'utf8'));
}

/** What is done in each cell. */
export const RUNS: Readonly<Record<Feature, (cell: Cell) => Promise<void>>> = {
  async call(cell) {
    const words = unique();
    assert.equal(await callText(cell, 'echo', { text: words }), words);
    const failed = await call(cell, 'fail');
    assert.deepEqual([failed.isError, failed.content[0].text], [true, 'it failed']);
  },

  async progress(cell) {
    const { heard } = cell.client;
    for (const progressToken of [unique(), 700_000 + ++cells]) {
      const from = heard.count;
      assert.equal(await callText(cell, 'progress', {}, { progressToken }), 'done');
      const ours = ({ method, params }: Json) =>
        method === 'notifications/progress' && params.progressToken === progressToken;
      const last = await heard.until(from, (notice) => ours(notice) && notice.params.progress === 3);
      assert.equal(last.params.message, 'step 3');
      const steps = heard.of('notifications/progress').filter(ours);
      assert.deepEqual(
        steps.map(({ params }) => params.progress),
        [1, 2, 3],
      );
    }
  },

  async log(cell) {
    const { heard } = cell.client;
    for (const [level, expected] of [
      ['info', ['info', 'error']],
      ['error', ['error']],
    ] as const) {
      const words = unique();
      const from = heard.count;
      await cell.client.callLogging(level, exposed(cell, 'log'), { text: words });
      await heard.until(from, ({ params }) => params.data === `${words} error`);
      const said = heard.of('notifications/message').filter(({ params }) => params.data.startsWith(`${words} `));
      assert.deepEqual(
        said.map(({ params }) => params.level),
        expected,
      );
    }
  },

  async cancel(cell) {
    const key = unique();
    const abort = new AbortController();
    const params = { name: exposed(cell, 'hold'), arguments: { key } };
    const held = cell.client.request('tools/call', params, abort.signal).then(
      () => 'answered',
      () => 'given up',
    );
    const becomes = async (state: string) => {
      while ((await callText(cell, 'held', { key })) !== state) await new Promise((done) => setImmediate(done));
    };
    await becomes('running');
    abort.abort();
    assert.equal(await held, 'given up');
    await becomes('cancelled');
  },

  sampling: (cell) => asks(cell, 'sampling', 'sample', ['sampling/createMessage']),
  form: (cell) => asks(cell, 'form', 'form', ['elicitation/create']),
  url: (cell) => asks(cell, 'url', 'url', ['elicitation/create']),
  roots: (cell) => asks(cell, 'roots', 'roots', ['roots/list']),
  several: (cell) =>
    asks(cell, 'several', 'everything', ['sampling/createMessage', 'elicitation/create', 'roots/list']),

  async outside(cell) {
    const { client } = cell;
    const words = unique();
    const file = join(cell.folder, words);
    const before = client.asked.length;
    client.answering = (method) => ANSWERS[method]!(words);
    assert.equal(await callText(cell, 'ask-later', { text: words, file }), 'soon');
    const came = await appeared(file);
    const exception = impossible('outside', client.revision, cell.server);
    if (exception === null) {
      assert.deepEqual(came, [ANSWERS['roots/list']!(words), ANSWERS['sampling/createMessage']!(words)]);
    } else assert.deepEqual(came, [{ roots: [] }, { code: exception.code }]);
    const asked = client.asked.slice(before).map(({ method }) => method);
    assert.deepEqual(asked, exception === null ? ['roots/list', 'sampling/createMessage'] : []);
  },

  async subscribe(cell) {
    const uri = await documentUri(cell);
    const { client } = cell;
    await client.subscribe(uri);
    const from = client.heard.count;
    assert.equal(await callText(cell, 'touch'), 'touched');
    const updated = await client.heard.until(from, ({ method }) => method === 'notifications/resources/updated');
    assert.equal(updated.params.uri, uri);
  },

  async changed(cell) {
    const { client } = cell;
    await client.watch();
    const name = `grown-${unique()}`;
    let from = client.heard.count;
    assert.equal(await callText(cell, 'grow', { name }), 'grown');
    for (;;) {
      await client.heard.until(from, ({ method }) => method === 'notifications/tools/list_changed');
      from = client.heard.count;
      const tools = (await pages(client, 'tools/list', 'tools')).flat();
      if (tools.some((tool) => tool.name === exposed(cell, name))) break;
    }
    assert.equal(await callText(cell, name), name);
  },

  async completion(cell) {
    const { completion } = await cell.client.request('completion/complete', {
      ref: { type: 'ref/prompt', name: exposed(cell, 'greet') },
      argument: { name: 'who', value: 'a' },
    });
    assert.deepEqual(completion, { values: ['ada', 'alan'], total: 2, hasMore: false });
  },

  async pagination(cell) {
    const found = await pages(cell.client, 'tools/list', 'tools');
    const names = found.flat().map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
    for (const name of ['echo', 'throw', 'idle-0', 'idle-6']) {
      assert.ok(names.includes(exposed(cell, name)), `${exposed(cell, name)} of ${names.join(' ')}`);
    }
    if (!cell.aggregate) assert.ok(found.length >= 5 && found.every((page) => page.length <= 4), `${found.length}`);
    const { error } = await attempt(cell.client.request('tools/list', { cursor: 'made-up' }));
    assert.equal(error?.code, -32602, JSON.stringify(error));
  },

  async errors(cell) {
    const { client } = cell;
    const stateless = isStateless(client.revision);
    const own = await attempt(call(cell, 'throw'));
    assert.deepEqual(own.error, OWN_ERROR);

    const tool = await attempt(call(cell, 'nobody-has-this'));
    if (cell.aggregate && !stateless) assert.equal(tool.result?.isError, true, JSON.stringify(tool));
    else assert.equal(tool.error?.code, -32602, JSON.stringify(tool));

    const uri = 'matrix://nothing-there';
    const resource = await attempt(client.request('resources/read', { uri }));
    assert.equal(resource.error?.code, unknownResource(cell), JSON.stringify(resource));
    assert.equal(resource.error.data?.uri, uri);

    const method = await attempt(client.request('matrix/no-such-method', {}));
    assert.equal(method.error?.code, -32601, JSON.stringify(method));
    if (stateless) assert.equal(method.error.status, 404);
  },

  async tasks(cell) {
    const { task } = cell.client;
    if (task === null) {
      // A client without tasks gets the answer all the same.
      assert.equal(await callText(cell, TASK_TOOL), `${TASK_TOOL} done`);
      return;
    }
    const { states, result } = await task(exposed(cell, TASK_TOOL));
    assert.equal(result.content[0].text, `${TASK_TOOL} done`);
    assert.deepEqual([states[0], states.at(-1)], ['working', 'completed']);
  },
};

/** Stateful revisions have a code of their own. SDK 2 does not use it in its servers, and their code passes unchanged. */
function unknownResource({ client, server }: Cell): number {
  if (isStateless(client.revision)) return -32602;
  return isStateless(server) || server === '2025-11-25' ? -32002 : -32602;
}
