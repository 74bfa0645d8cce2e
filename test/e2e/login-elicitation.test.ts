import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { HttpStage, sendJson } from '../fixtures/http/stage.ts';
import { PersonalServer } from '../fixtures/oauth/personal-server.ts';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { consent, inBrowser } from '../support/consent.ts';
import { followed } from '../support/followed-events.ts';
import { AGENTS, headersOf, KEYS } from '../support/parties.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient, type WireClientOptions } from '../support/wire-client.ts';

const URL_MODE: WireClientOptions = { capabilities: { elicitation: { form: {}, url: {} } } };
const ECHO = { name: 'web__echo', arguments: { text: 'hello' } };
const LOGIN = 'web__trunkline_login';

/** Signs in as a user does at the page that the client was asked to open. */
async function signInAt(page: string): Promise<void> {
  await inBrowser(async (browser) => {
    await browser.goto(page);
    await browser.getByText('all of them will use this login').waitFor();
    await browser.click('button');
    await consent(browser);
    await browser.getByText('The gateway is signed in to web').waitFor({ timeout: 15_000 });
  });
}

describe('a call of a server that asks for a login asks its user', { timeout: 180_000 }, () => {
  let server: ProtectedServer;
  before(async () => {
    server = await ProtectedServer.start();
  });
  after(() => server.stop());

  async function gatewayOf(): Promise<RunningGateway> {
    return RunningGateway.start({ config: { mcpServers: { web: { type: 'http', url: server.url } } } });
  }

  test('proto:D5 S3.5 a stateful client opens the page, its user signs in, and the call goes on; once for two calls', async (t) => {
    const gateway = await gatewayOf();
    t.after(() => gateway.dispose());
    const client = await WireClient.open(gateway.mcpUrl, URL_MODE);
    assert.deepEqual(await client.toolNames(), [LOGIN], 'no catalogue is known: the login is the only tool');
    const stream = await client.listen();
    const questions: Json[] = [];
    client.answer = (question) => {
      questions.push(question);
      void signInAt(question.params.url);
      return { action: 'accept' };
    };
    const [first, second] = await Promise.all([client.request('tools/call', ECHO), client.request('tools/call', ECHO)]);
    for (const { message } of [first, second]) assert.equal(message.result?.content[0].text, 'hello');
    assert.equal(questions.length, 1, 'a user is asked once');
    const [{ method, params }] = questions as [Json];
    assert.equal(method, 'elicitation/create');
    assert.equal(params.mode, 'url');
    assert.equal(params.url, `${new URL(gateway.mcpUrl).origin}/oauth/login/web`);
    const completed = [...first.before, ...second.before].filter(
      (one) => one.method === 'notifications/elicitation/complete',
    );
    assert.deepEqual(
      completed.map((one) => one.params.elicitationId),
      [params.elicitationId],
    );
    assert.equal((await stream.message()).method, 'notifications/tools/list_changed');
    stream.drop();
    const names = await client.toolNames();
    assert.ok(names.includes('web__echo') && !names.includes(LOGIN), names.join());
  });

  test('proto:D5 a stateless client gets the page as an input request, and its retry goes on', async (t) => {
    const gateway = await gatewayOf();
    t.after(() => gateway.dispose());
    const client = new WireClient(gateway.mcpUrl, 'stateless', URL_MODE);
    const { result: asked } = (await client.request('tools/call', ECHO)).message;
    assert.equal(asked.resultType, 'input_required');
    const [[key, { params }]] = Object.entries<Json>(asked.inputRequests) as [[string, Json]];
    assert.equal(params.mode, 'url');
    assert.equal(params.elicitationId, undefined);
    await signInAt(params.url);
    const { requestState } = asked;
    const retried = await client.request('tools/call', {
      ...ECHO,
      requestState,
      inputResponses: { [key]: { action: 'accept' } },
    });
    assert.equal(retried.message.result?.content[0].text, 'hello', JSON.stringify(retried.message));
  });

  test('S3.5 check:I1 the login tool does the same while no catalogue of the server is known, also on the endpoint of the server', async (t) => {
    const gateway = await gatewayOf();
    t.after(() => gateway.dispose());
    const client = await WireClient.open(gateway.serverUrl('web'), URL_MODE);
    assert.deepEqual(await client.toolNames(), ['trunkline_login']);
    client.answer = ({ params }) => {
      void signInAt(params.url);
      return { action: 'accept' };
    };
    assert.match(await client.callText('trunkline_login'), /Signed in to web/);
    assert.ok((await client.toolNames()).includes('echo'));
  });

  test('a client that cannot be asked, and one whose user declines, get REFUSED with the command', async (t) => {
    const gateway = await gatewayOf();
    t.after(() => gateway.dispose());
    const forms = { capabilities: { elicitation: {} } };
    for (const options of [{}, forms, URL_MODE]) {
      const client = await WireClient.open(gateway.mcpUrl, options);
      client.answer = () => ({ action: 'decline' });
      for (const name of ['web__echo', LOGIN]) {
        const { message } = await client.request('tools/call', { name, arguments: {} });
        assert.equal(message.result?.isError, true);
        assert.match(message.result.content[0].text, /trunkline login web/);
        assert.equal(message.result._meta['trunkline/error'].outcome, 'REFUSED');
      }
    }
    const stateless = new WireClient(gateway.mcpUrl, 'stateless', forms);
    const { message } = await stateless.request('tools/call', ECHO);
    assert.match(JSON.stringify(message), /trunkline login web/);
  });

  test('proto:T9 a call that needs more scopes asks its user; one that the server forbids does not', async (t) => {
    const stage = await HttpStage.start(({ body, res }) => {
      const { id = null, method, params } = JSON.parse(body.toString() || '{}');
      const capabilities = { tools: {} };
      const handshake = { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 's', version: '1' } };
      const tools = ['more', 'never'].map((name) => ({ name, inputSchema: { type: 'object' } }));
      if (method === 'initialize') sendJson(res, 200, { jsonrpc: '2.0', id, result: handshake });
      else if (method === 'tools/list') sendJson(res, 200, { jsonrpc: '2.0', id, result: { tools } });
      else if (params?.name === 'more')
        res.writeHead(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="write"' }).end();
      else res.writeHead(method === 'tools/call' ? 403 : id === null ? 202 : 405).end();
    });
    const gateway = await RunningGateway.start({
      config: { mcpServers: { web: { type: 'http', url: `${stage.origin}/mcp` } } },
    });
    t.after(async () => {
      await gateway.dispose();
      await stage.stop();
    });
    const client = await WireClient.open(gateway.mcpUrl, URL_MODE);
    client.answer = () => ({ action: 'decline' });
    const call = async (name: string) => (await client.call(`web__${name}`)).content[0].text;
    const never = await call('never');
    assert.match(never, /^(?!.*trunkline login).*does not accept the credentials/);
    assert.equal(client.asked.length, 0);
    assert.match(await call('more'), /sign in: trunkline login web/);
    assert.deepEqual(
      client.asked.map(({ method }) => method),
      ['elicitation/create'],
    );
  });

  test('trunkline stdio, which has no listener, opens the page on this machine only', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-ask-stdio-'));
    const file = join(folder, 'trunkline.json');
    // The agents of the file do not matter here: the only caller is the program that starts the command.
    writeFileSync(file, JSON.stringify({ mcpServers: { web: { type: 'http', url: server.url } }, agents: AGENTS }));
    const client = new Client({ name: 'desktop', version: '1' }, { capabilities: { elicitation: { url: {} } } });
    const strangers: Promise<Response>[] = [];
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      assert.ok('url' in params);
      assert.match(params.url, /^http:\/\/127\.0\.0\.1:\d+\/oauth\/login\/web\?[0-9a-f]{32}$/);
      void signInAt(params.url);
      const guessed = params.url.replace(/\?.*/, '');
      strangers.push(fetch(guessed, { method: 'POST', redirect: 'manual', body: new URLSearchParams() }));
      strangers.push(fetch(guessed));
      return { action: 'accept' };
    });
    const args = [
      resolve(import.meta.dirname, '../../bin/trunkline.js'),
      'stdio',
      file,
      '--data-dir',
      join(folder, 'data'),
    ];
    await client.connect(new StdioClientTransport({ command: process.execPath, args, stderr: 'inherit' }));
    t.after(async () => {
      await client.close();
      rmSync(folder, { recursive: true, force: true });
    });
    const { content } = await client.callTool(ECHO);
    assert.deepEqual(content, [{ type: 'text', text: 'hello' }]);
    assert.deepEqual(
      (await Promise.all(strangers)).map(({ status }) => status),
      [403, 403],
      'another user of this machine can only guess the address',
    );
  });
});

describe('only the user of the caller can sign in on the page', { timeout: 120_000 }, () => {
  let gateway: RunningGateway;
  let server: PersonalServer;
  before(async () => {
    server = await PersonalServer.start({ era: 'stateful', by: 'token' });
    const own = { type: 'http', url: server.url, auth: { per: 'principal' } };
    const mcpServers = { own, shared: { type: 'http', url: server.url } };
    gateway = await RunningGateway.start({ config: { mcpServers, agents: AGENTS } });
  });
  after(async () => {
    await gateway.dispose();
    await server.stop();
  });

  const post = (name: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
    fetch(`${new URL(gateway.mcpUrl).origin}/oauth/login/${name}`, {
      method: 'POST',
      redirect: 'manual',
      headers,
      body: new URLSearchParams(form),
    });
  const connections = async () =>
    (await gateway.control<Json>('/api/v1/credentials')).credentials.map(({ server: name, principal }: Json) => [
      name,
      principal,
    ]);

  test('proto:D5 an unknown key, a page of another site and a browser that did not begin the login complete no login', async () => {
    const wrong = await post('own', { key: 'wrong-key-0123456789' });
    assert.equal(wrong.status, 403);
    assert.match(
      await wrong.text(),
      /No agent has this key.*<form.*name="key"/,
      'the user can give another one at once',
    );
    assert.equal((await post('own', {})).status, 403);
    assert.equal((await post('own', { key: KEYS.ada }, { 'sec-fetch-site': 'cross-site' })).status, 403);
    assert.equal((await post('own', { key: KEYS.ada }, { origin: 'http://127.0.0.1:9' })).status, 403);
    assert.equal((await post('nosuch', { key: KEYS.ada })).status, 404);
    const shared = await post('shared', { key: KEYS.ada });
    assert.equal(shared.status, 404);
    assert.match(await shared.text(), /the operator signs in with: trunkline login shared/);

    // Bob is sent the address of a login that Ada began, and signs in there.
    const begun = await post('own', { key: KEYS.ada });
    assert.equal(begun.status, 303);
    const back = await server.authorize(begun.headers.get('location')!, 'bob');
    const ended = await fetch(back);
    assert.equal(ended.status, 400);
    assert.match(await ended.text(), /begun in another browser/);
    assert.deepEqual(await connections(), []);
    const cookie = begun.headers.get('set-cookie')!;
    assert.match(cookie, /; HttpOnly; SameSite=Lax$/);
    const own = await fetch(back, { headers: { cookie: cookie.split(';')[0]! } });
    assert.equal(own.status, 200, 'in the browser that began it, it still ends');
    const reloaded = await fetch(back, { headers: { cookie: own.headers.get('set-cookie')!.split(';')[0]! } });
    assert.match(await reloaded.text(), /Signed in/);
    const localhost = new URL(gateway.mcpUrl).origin.replace('127.0.0.1', 'localhost');
    const other = await fetch(`${localhost}/oauth/login/own`, { redirect: 'manual' });
    assert.equal(other.headers.get('location'), `${localhost.replace('localhost', '127.0.0.1')}/oauth/login/own`);
    assert.deepEqual(await connections(), [['own', 'agent:ada']]);
    await gateway.control('/api/v1/servers/own/login?principal=agent%3Aada', 'DELETE');
  });

  test('proto:D5 the call of an agent goes on when that agent has signed in, not when another one has', async () => {
    const token = readFileSync(join(gateway.folder, 'data', 'control.token'), 'utf8').trim();
    const events = await followed(gateway.controlUrl, token);
    const client = await WireClient.open(gateway.mcpUrl, { ...URL_MODE, headers: headersOf('ada', 'token') });
    const questions: Json[] = [];
    client.answer = (question) => {
      questions.push(question);
      return { action: 'accept' };
    };
    let ended = false;
    const called = client.request('tools/call', { name: 'own__echo', arguments: { caller: 'ada' } });
    void called.then(() => {
      ended = true;
    });
    const signIn = async (user: 'ada' | 'bob') => {
      const begun = await post('own', { key: KEYS[user] });
      const back = await server.authorize(begun.headers.get('location')!, user);
      const cookie = begun.headers.get('set-cookie')!.split(';')[0]!;
      assert.equal((await fetch(back, { headers: { cookie } })).status, 200);
    };
    while (questions.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.match(questions[0]!.params.message, /key of the agent ada/);
    await signIn('bob');
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    assert.equal(ended, false);
    await signIn('ada');
    const { message } = await called;
    assert.match(JSON.stringify(message.result), /private-to-ada/);
    const all = await events(({ principal, needed }) => principal === 'agent:ada' && needed === false);
    const ofAda = all.filter(({ type, principal }) => type === 'login' && principal === 'agent:ada');
    assert.deepEqual(
      ofAda.map(({ type, server: name, needed, advice }) => [type, name, needed, advice]),
      [
        ['login', 'own', true, 'sign in: trunkline login own --principal agent:ada'],
        ['login', 'own', false, null],
      ],
    );
  });

  test('S3.5 when a login is gone, each principal still lists its own last known tools, also after a restart', async () => {
    const listed = async (user: 'ada' | 'bob'): Promise<string[]> =>
      new WireClient(gateway.mcpUrl, 'stateless', { headers: headersOf(user, 'token') }).toolNames();
    const body = JSON.stringify({ redirectUri: 'http://127.0.0.1:9/back' });
    const started = await gateway.control<Json>('/api/v1/servers/shared/login', 'POST', body);
    const url = await server.authorize(started.url, 'bob');
    await gateway.control('/api/v1/login-redirects', 'POST', JSON.stringify({ url }));
    await gateway.ready('shared');
    const before = { ada: await listed('ada'), bob: await listed('bob') };
    for (const user of ['ada', 'bob'] as const)
      assert.deepEqual(before[user], ['own__echo', `own__only_${user}`, 'shared__echo', 'shared__only_bob']);
    await gateway.control('/api/v1/servers/own/login?principal=agent%3Aada', 'DELETE');
    await gateway.control('/api/v1/servers/shared/login', 'DELETE');
    assert.deepEqual({ ada: await listed('ada'), bob: await listed('bob') }, before);
    await gateway.stop();
    const { folder } = gateway;
    const config = JSON.parse(readFileSync(join(folder, 'trunkline.json'), 'utf8'));
    gateway = await RunningGateway.start({ config, folder });
    assert.deepEqual({ ada: await listed('ada'), bob: await listed('bob') }, before);
    const client = new WireClient(gateway.mcpUrl, 'stateless', { headers: headersOf('ada', 'token') });
    for (const name of ['own__echo', 'shared__echo']) {
      const { message } = await client.request('tools/call', { name, arguments: {} });
      assert.match(JSON.stringify(message), /sign in: trunkline login (?:own --principal agent:ada|shared)/);
    }
  });

  test('an agent that is removed leaves no credential to the next one of its name', async () => {
    const whose = async () => (await connections()).map(([, principal]: [string, string]) => principal).sort();
    assert.deepEqual(await whose(), ['agent:bob']);
    const file = join(gateway.folder, 'trunkline.json');
    const config = JSON.parse(readFileSync(file, 'utf8'));
    const { bob, ...others } = config.agents;
    writeFileSync(file, JSON.stringify({ ...config, agents: others }));
    while ((await whose()).length === 1) await new Promise((resolve) => setTimeout(resolve, 50));
    writeFileSync(file, JSON.stringify({ ...config, agents: { ...others, bob } }));
    const called = async (): Promise<string> => {
      const client = new WireClient(gateway.mcpUrl, 'stateless', { headers: headersOf('bob', 'token') });
      const { message } = await client.request('tools/call', { name: 'own__echo', arguments: { caller: 'bob' } });
      return JSON.stringify(message);
    };
    let answer = await called();
    while (answer.includes('Unauthorized')) answer = await called();
    assert.match(answer, /trunkline login own --principal agent:bob/);
    assert.deepEqual(await whose(), []);
  });

  test('with a shared login and agents, a caller is not asked', async () => {
    const client = await WireClient.open(gateway.mcpUrl, { ...URL_MODE, headers: headersOf('ada', 'token') });
    client.answer = () => assert.fail('the client was asked');
    const { message } = await client.request('tools/call', { name: 'shared__echo', arguments: {} });
    assert.match(message.result.content[0].text, /trunkline login shared/);
  });
});

describe('the page behind a proxy of another address', { timeout: 120_000 }, () => {
  let server: PersonalServer;
  before(async () => {
    server = await PersonalServer.start({ era: 'stateful', by: 'token' });
  });
  after(() => server.stop());

  /** A gateway, and the local address of its page, to which the proxy sends requests. */
  async function behindProxy(more: object): Promise<{ gateway: RunningGateway; page: string }> {
    const mcpServers = { own: { type: 'http', url: server.url, auth: { per: 'principal' } } };
    const config = { mcpServers, listen: { publicUrl: 'https://gateway.example/tools' }, ...more };
    const gateway = await RunningGateway.start({ config });
    return { gateway, page: `${new URL(gateway.mcpUrl).origin}/oauth/login/own` };
  }
  const submit = (page: string, key: string, headers: Record<string, string> = {}) =>
    fetch(page, { method: 'POST', redirect: 'manual', headers, body: new URLSearchParams({ key }) });

  test('proto:D5 a cookie that a neighbouring host can set completes no login', async (t) => {
    const { gateway, page } = await behindProxy({ agents: AGENTS });
    t.after(() => gateway.dispose());
    const begun = await submit(page, KEYS.ada, { origin: 'https://gateway.example' });
    assert.equal(begun.status, 303, await begun.text());
    const [cookie = '', ...attributes] = begun.headers.get('set-cookie')!.split('; ');
    assert.match(cookie, /^__Host-trunkline-login-/);
    assert.ok(attributes.includes('Secure') && attributes.includes('Path=/'), attributes.join());
    const back = new URL(await server.authorize(begun.headers.get('location')!, 'bob'));
    assert.equal(`${back.origin}${back.pathname}`, 'https://gateway.example/tools/oauth/callback');
    const callback = `${new URL(page).origin}/oauth/callback${back.search}`;
    const set = await fetch(callback, { headers: { cookie: cookie.replace('__Host-', '') } });
    assert.equal(set.status, 400, await set.text());
    assert.equal((await fetch(callback, { headers: { cookie } })).status, 200);
  });

  test('proto:D5 callers without keys are not asked: the gateway cannot tell whose user opens the page', async (t) => {
    const { gateway, page } = await behindProxy({});
    t.after(() => gateway.dispose());
    const client = await WireClient.open(gateway.mcpUrl, URL_MODE);
    client.answer = () => assert.fail('the client was asked');
    const { message } = await client.request('tools/call', { name: 'own__echo', arguments: {} });
    assert.match(JSON.stringify(message), /trunkline login own/);
    for (const refused of [await fetch(page), await submit(page, '')]) {
      assert.equal(refused.status, 404);
      assert.match(await refused.text(), /from other machines/);
    }
  });
});
