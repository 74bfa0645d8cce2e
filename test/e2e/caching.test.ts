import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { HintingServer } from '../fixtures/http/hinting.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const KEYS = { ada: 'key-of-ada-0123456789', bob: 'key-of-bob-0123456789', eve: 'key-of-eve-0123456789' };
const A = 'test://a';
const B = 'test://b';
const LONG = '"ttlMs":60000';

/** The resources that `one` lists, so that the aggregate knows their server. */
const LISTED = [
  A,
  B,
  ...'private public long round brief rights left own shared stateful'.split(' ').map((id) => `test://${id}`),
];
LISTED.push(...[0, 1, 2, 3, 4, 5].map((i) => `test://none/${i}`), ...[0, 1].map((i) => `test://scope/${i}`));

/** Polls the condition; the time limit is long enough for every machine. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 45_000; !(await condition()); ) {
    if (performance.now() > end) throw new Error(`timed out waiting for ${condition}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

function contents(uri: string, hints: string, text = 'x'): string {
  return `"contents":[{"uri":"${uri}","text":"${text}"}],${hints}`;
}

/** Each rule of caching on the endpoint of one server and on the aggregate, with two different servers. */
for (const endpoint of ['server', 'aggregate'] as const) {
  describe(`caching on the endpoint of ${endpoint === 'server' ? 'one server' : 'all'}`, { timeout: 120_000 }, () => {
    let one: HintingServer;
    let two: HintingServer;
    let off: HintingServer;
    let gateway: RunningGateway;
    let config: Json;
    let hints = '';
    let n = 0;

    before(async () => {
      [one, two, off] = await Promise.all([HintingServer.start(), HintingServer.start(), HintingServer.start()]);
      for (const server of [one, two, off]) {
        server.capabilities =
          '{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}';
        const known = server === one ? LISTED : server === two ? ['two://a'] : ['off://a'];
        const items = known.map((uri) => `{"uri":"${uri}","name":"r"}`).join(',');
        server.say.set('resources/list', () => `"resources":[${items}],"ttlMs":0,"cacheScope":"private"`);
      }
      config = {
        mcpServers: {
          one: { type: 'http', url: one.url },
          two: { type: 'http', url: two.url },
          off: { type: 'http', url: off.url, cache: false },
        },
        agents: {
          ada: { key: KEYS.ada },
          bob: { key: KEYS.bob },
          eve: { key: KEYS.eve, servers: ['two', 'off'] },
        },
      };
      gateway = await RunningGateway.start({ config });
      await gateway.ready();
      await until(() => one.listening > 0);
    });
    after(async () => {
      await gateway.dispose();
      await Promise.all([one.stop(), two.stop(), off.stop()]);
    });

    /** Each test has resources of its own, so what another one left behind does not matter. */
    beforeEach(() => {
      hints = `${LONG},"cacheScope":"public"`;
      for (const [server, scheme] of [
        [one, 'test:'],
        [two, 'two:'],
        [off, 'off:'],
      ] as const) {
        server.say.set('resources/read', ({ uri }) =>
          endpoint === 'server' || String(uri).startsWith(scheme)
            ? contents(String(uri), hints, String(++n))
            : { error: '{"code":-32602,"message":"Resource not found"}' },
        );
      }
    });

    function caller(name: keyof typeof KEYS, server = 'one', options: object = {}): WireClient {
      const url = endpoint === 'server' ? gateway.serverUrl(server) : gateway.mcpUrl;
      return new WireClient(url, 'stateless', { headers: { authorization: `Bearer ${KEYS[name]}` }, ...options });
    }

    const read = (client: WireClient, uri = A, more: object = {}) => client.result('resources/read', { uri, ...more });
    const text = (result: Json): string => result.contents[0].text;

    test('proto:C1 a private answer is never shown under another key, and shown again under its own', async () => {
      hints = `${LONG},"cacheScope":"private"`;
      const uri = 'test://private';
      const before = one.count('resources/read', uri);
      const [ada, bob] = [caller('ada'), caller('bob')];
      const first = text(await read(ada, uri));
      const second = text(await read(bob, uri));
      assert.notEqual(second, first);
      assert.equal(text(await read(ada, uri)), first);
      assert.equal(text(await read(bob, uri)), second);
      assert.equal(one.count('resources/read', uri) - before, 2);
    });

    test('proto:C2 a public answer is shown to others, and never as another server’s', async () => {
      const uri = 'test://public';
      const seen = text(await read(caller('ada'), uri));
      assert.equal(text(await read(caller('bob'), uri)), seen);
      assert.equal(one.count('resources/read', uri), 1);
      // The other server calls itself the same, and has a resource of the same name.
      const other = endpoint === 'server' ? uri : 'two://a';
      if (endpoint === 'server') assert.notEqual(text(await read(caller('ada', 'two'), other)), seen);
      else assert.notEqual(text(await read(caller('ada'), other)), seen);
      assert.ok(two.count('resources/read', other) > 0);
    });

    test('proto:C3 without a valid hint nothing is kept; a lifetime is at most a day', async () => {
      const ada = caller('ada');
      const useless = ['', '"ttlMs":-5', '"ttlMs":"60000"', '"ttlMs":0.5', '"ttlMs":null', '"ttlMs":1E400'];
      for (const ttl of useless) {
        hints = `${ttl === '' ? '' : `${ttl},`}"cacheScope":"public"`;
        const uri = `test://none/${useless.indexOf(ttl)}`;
        await read(ada, uri);
        await read(ada, uri);
        assert.equal(one.count('resources/read', uri), 2, ttl);
      }
      // Absent and unknown scopes are private.
      for (const [i, scope] of ['"x":1', '"cacheScope":"everybody"'].entries()) {
        hints = `${LONG},${scope}`;
        const uri = `test://scope/${i}`;
        await read(ada, uri);
        await read(ada, uri);
        await read(caller('bob'), uri);
        assert.equal(one.count('resources/read', uri), 2, scope);
      }
      hints = '"ttlMs":31536000000,"cacheScope":"public"';
      await read(ada, 'test://long');
      assert.ok((await read(ada, 'test://long')).ttlMs <= 86_400_000);
    });

    test('proto:C4 other params have another answer; all pages of a list have one scope', async () => {
      const ada = caller('ada');
      await read(ada, A);
      const before = one.count('resources/read');
      await read(ada, B);
      await read(ada, A, { 'x-part': 2 });
      await read(ada, A, { _meta: { 'vendor/view': 'x' } });
      assert.equal(one.count('resources/read') - before, 3);
      await read(ada, A);
      await read(ada, A, { 'x-part': 2 });
      assert.equal(one.count('resources/read') - before, 3);
      // The capabilities of the client may affect the answer too.
      await read(caller('ada', 'one', { capabilities: { roots: {} } }), A);
      assert.equal(one.count('resources/read') - before, 4);

      one.say.set('prompts/list', ({ cursor }) =>
        cursor === undefined
          ? `"prompts":[{"name":"p1"}],"nextCursor":"",${LONG},"cacheScope":"private"`
          : `"prompts":[{"name":"p2"}],${LONG},"cacheScope":"public"`,
      );
      one.tell('notifications/prompts/list_changed');
      if (endpoint === 'aggregate') {
        const names = async () => (await ada.result('prompts/list')).prompts.map(({ name }: Json) => name);
        await until(async () => (await names()).length === 2);
        assert.equal((await ada.result('prompts/list')).cacheScope, 'private');
        return;
      }
      await until(() => one.count('prompts/list', '') > 0);
      const first = await ada.result('prompts/list');
      const listed = one.count('prompts/list');
      const second = await ada.result('prompts/list', { cursor: first.nextCursor });
      assert.deepEqual([first.prompts[0].name, second.prompts[0].name], ['p1', 'p2']);
      assert.deepEqual([first.cacheScope, second.cacheScope], ['private', 'private']);
      await ada.result('prompts/list');
      await ada.result('prompts/list', { cursor: '' });
      assert.equal(one.count('prompts/list') - listed, 1, 'each page is kept separately');
    });

    test('proto:C5 answers of a round of input are not kept', async () => {
      const uri = 'test://round';
      const ada = caller('ada', 'one', { capabilities: { roots: {} } });
      one.say.set('resources/read', (params) => {
        if (params['inputResponses'] !== undefined) return contents(uri, hints, String(++n));
        return `"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"roots/list"}},${hints}`;
      });
      assert.equal((await read(ada, uri)).resultType, 'input_required');
      const asked = await read(ada, uri);
      assert.equal(asked.resultType, 'input_required');
      assert.equal(one.count('resources/read', uri), 2);
      const answers = { inputResponses: { q: { roots: [] } } };
      const answered = await read(ada, uri, { ...answers, requestState: asked.requestState });
      assert.equal(text(answered), String(n));
      assert.equal((await read(ada, uri)).resultType, 'input_required');
      assert.equal(one.count('resources/read', uri), 4);
      // A stateful client gets a request of its own era, and the answer that follows is not kept either; a progress token
      // makes no difference.
      const url = endpoint === 'server' ? gateway.serverUrl('one') : gateway.mcpUrl;
      const headers = { authorization: `Bearer ${KEYS.ada}` };
      const session = await WireClient.open(url, { headers, capabilities: { roots: {} } });
      session.answer = () => ({ roots: [] });
      for (const _meta of [{}, { progressToken: 1 }]) {
        const [one1, two1] = [text(await read(session, uri, { _meta })), text(await read(session, uri, { _meta }))];
        assert.notEqual(one1, two1);
      }
      assert.equal(session.asked.length, 4);
    });

    test('proto:C6 a notification invalidates kept answers, and those on their way', async () => {
      const ada = caller('ada');
      const stream = await ada.listening({ resourceSubscriptions: [A] });
      const kept = text(await read(ada));
      await read(ada, B);
      const [ofA, ofB] = [one.count('resources/read', A), one.count('resources/read', B)];
      one.tell('notifications/resources/updated', `"uri":"${A}"`);
      assert.equal((await stream.message()).params.uri, A);
      // A notified client reads the new content; answers for other resources stay.
      assert.notEqual(text(await read(ada)), kept);
      await read(ada, B);
      assert.deepEqual([one.count('resources/read', A) - ofA, one.count('resources/read', B) - ofB], [1, 0]);

      one.tell('notifications/resources/updated', `"uri":"${A}"`);
      await stream.message();
      const release = one.hold('resources/read');
      const early = read(ada);
      await until(() => one.count('resources/read', A) === ofA + 2);
      one.tell('notifications/resources/updated', `"uri":"${A}"`);
      await stream.message();
      const late = read(caller('ada'));
      await until(() => one.count('resources/read', A) === ofA + 3);
      release();
      assert.equal((await early).ttlMs, 0, 'the earlier read is stale');
      const fresh = await late;
      assert.equal(text(await read(ada)), text(fresh));
      assert.equal(one.count('resources/read', A), ofA + 3);
      stream.drop();
    });

    test('proto:C7 the gateway does not poll; a stale answer is shown while the server fails', async () => {
      const ada = caller('ada');
      hints = '"ttlMs":100,"cacheScope":"public"';
      const uri = 'test://brief';
      const kept = text(await read(ada, uri));
      one.say.set('resources/read', (_, { res }) => {
        res.destroy();
        return '';
      });
      // The server gets no request while the answer is fresh; then each read is one attempt, and the gateway adds none.
      let requests = 0;
      await until(async () => {
        requests++;
        const answer = await read(ada, uri);
        assert.equal(text(answer), kept);
        return answer.ttlMs === 0 && one.count('resources/read', uri) > 1;
      });
      assert.ok(one.count('resources/read', uri) <= requests + 1);
      const asked = one.count('resources/read', uri);
      await until(async () => (await caller('ada', 'two').result('resources/read', { uri: 'two://a' })) !== null);
      assert.equal(one.count('resources/read', uri), asked);
      assert.match(await gateway.metrics(), /trunkline_cache_requests_total\{server="one",result="stale"\} [1-9]/);
    });

    test('proto:C8 a caller without the right to the server, or that has lost it, gets no kept answer', async () => {
      const uri = 'test://rights';
      await read(caller('ada'), uri);
      await read(caller('bob'), uri);
      assert.equal(one.count('resources/read', uri), 1);
      const eve = await caller('eve').request('resources/read', { uri });
      assert.ok(eve.message.error !== undefined, JSON.stringify(eve));
      assert.equal(one.count('resources/read', uri), 1);
      const fewer = { ...config.agents, bob: { key: KEYS.bob, servers: ['two'] } };
      gateway.rewrite({ ...config, agents: fewer });
      await until(async () => (await caller('bob').request('resources/read', { uri })).message.error !== undefined);
      gateway.rewrite(config);
      await until(async () => (await caller('bob').request('resources/read', { uri })).message.error === undefined);
    });

    test('proto:C9 an answer has its remaining time, and is never more public than its server made it', async () => {
      const ada = caller('ada');
      const uri = 'test://left';
      const first = await read(ada, uri);
      const at = performance.now();
      assert.equal(first.ttlMs, 60_000);
      let again = await read(ada, uri);
      await until(async () => {
        again = await read(ada, uri);
        return again.ttlMs < 60_000;
      });
      assert.ok(again.ttlMs >= 60_000 - (performance.now() - at) - 5_000);
      assert.equal(one.count('resources/read', uri), 1);
      // If callers have different rights, the answer for one of them is private.
      assert.deepEqual([first.cacheScope, again.cacheScope], ['private', 'private']);
      hints = `${LONG},"cacheScope":"private"`;
      await read(ada, 'test://own');
      assert.equal((await read(ada, 'test://own')).cacheScope, 'private');
    });

    test('concurrent equal calls share one request, and each can cancel', async () => {
      const uri = 'test://shared';
      const release = one.hold('resources/read');
      const ada = caller('ada');
      const leader = await openRead(ada, uri);
      await until(() => one.count('resources/read', uri) === 1);
      const followers = [read(caller('ada'), uri), read(caller('ada'), uri)];
      const leaving = await openRead(caller('ada'), uri);
      const sharers = /result="coalesced"\} (\d+)/;
      await until(async () => Number(sharers.exec(await gateway.metrics())?.[1] ?? 0) >= 3);
      leaving.drop();
      leader.drop();
      release();
      const answers = await Promise.all(followers);
      assert.equal(new Set(answers.map(text)).size, 1);
      assert.equal(one.count('resources/read', uri), 1);
    });

    test('with `cache: false` every request goes to the server, concurrent or not', async () => {
      const ada = caller('ada', 'off');
      await read(ada, 'off://a');
      await Promise.all([read(ada, 'off://a'), read(ada, 'off://a')]);
      assert.equal(off.count('resources/read', 'off://a'), 3);
    });

    test('a stateful client gets the same without the hints', async () => {
      const url = endpoint === 'server' ? gateway.serverUrl('one') : gateway.mcpUrl;
      const session = await WireClient.open(url, { headers: { authorization: `Bearer ${KEYS.ada}` } });
      const uri = 'test://stateful';
      const first = await read(session, uri);
      assert.deepEqual(first, { contents: [{ uri, text: text(first) }] });
      assert.deepEqual(await read(session, uri), first);
      assert.equal(text(await read(caller('bob'), uri)), text(first));
      assert.equal(one.count('resources/read', uri), 1);
    });
  });
}

/** Sends a read without waiting for its answer; `drop` cancels it by closing the connection. */
async function openRead(client: WireClient, uri: string): Promise<{ drop(): void }> {
  const controller = new AbortController();
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'wire', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const sent = fetch(client.url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'resources/read',
      'mcp-name': uri,
      authorization: `Bearer ${KEYS.ada}`,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri, _meta: meta } }),
    signal: controller.signal,
  });
  sent.catch(() => {});
  return { drop: () => controller.abort() };
}
