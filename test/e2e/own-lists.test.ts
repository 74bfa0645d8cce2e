import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { EventReader } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const TOOLSETS = resolve(import.meta.dirname, '../fixtures/stdio/toolsets.mjs');
/** A list is read at most once a second, and its changes are announced a moment later. */
const SETTLE_MS = 2_500;

/** A client of one endpoint, which uses the names that it sees there. */
class User {
  readonly client: WireClient;
  readonly #prefix: string;
  readonly reported: string[] = [];

  constructor(client: WireClient, prefix: string) {
    this.client = client;
    this.#prefix = prefix;
  }

  async listen(): Promise<void> {
    const follow = async (stream: Pick<EventReader, 'message'>): Promise<void> => {
      for (;;) {
        const message = await stream.message();
        if (message === null) return;
        this.reported.push(message.method);
      }
    };
    if (this.client.era === 'stateful') void follow(await this.client.listen()).catch(() => {});
    else {
      const all = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
      void follow(await this.client.listening(all)).catch(() => {});
    }
  }

  call(tool: string, args: object = {}): Promise<string> {
    return this.client.callText(`${this.#prefix}${tool}`, args);
  }

  /** Whether tool, prompt and resource of the name are listed: all or none. */
  async lists(name: string): Promise<boolean> {
    const { prompts } = await this.client.result('prompts/list');
    const { resources } = await this.client.result('resources/list');
    const found = [
      (await this.client.toolNames()).includes(`${this.#prefix}${name}`),
      prompts.some((prompt: { name: string }) => prompt.name === `${this.#prefix}${name}-prompt`),
      resources.some(({ uri }: { uri: string }) => uri === `toolset://${name}`),
    ];
    assert.equal(new Set(found).size, 1, `${name}: ${found}`);
    return found[0]!;
  }

  /** Calls the tool, gets the prompt and reads the resource. Returns which process answered each. */
  async uses(name: string): Promise<string[]> {
    const prompt = await this.client.result('prompts/get', { name: `${this.#prefix}${name}-prompt` });
    const read = await this.client.result('resources/read', { uri: `toolset://${name}` });
    return [await this.call(name), prompt.messages[0].content.text, read.contents[0].text];
  }

  async isRefused(name: string): Promise<boolean> {
    const { message } = await this.client.request('tools/call', { name: `${this.#prefix}${name}`, arguments: {} });
    return message.error !== undefined || message.result.isError === true;
  }
}

const LISTS = ['tools', 'prompts', 'resources'].map((list) => `notifications/${list}/list_changed`);

for (const endpoint of ['/mcp', '/servers/own/mcp']) {
  describe(`S2.6 S1.16 ${endpoint}: a client sees the lists of its own process, and gets no notification of another's`, () => {
    let gateway: RunningGateway;
    const of = async (era: 'stateful' | 'stateless', more: object = {}): Promise<User> => {
      const url = endpoint === '/mcp' ? gateway.mcpUrl : gateway.serverUrl('own');
      const client = new WireClient(url, era, more);
      if (era === 'stateful') await client.initialize();
      return new User(client, endpoint === '/mcp' ? 'own__' : '');
    };
    before(async () => {
      const own = { command: process.execPath, args: [TOOLSETS], isolationHeader: 'X-Conversation' };
      gateway = await RunningGateway.start({ config: { mcpServers: { own } } });
      await gateway.ready();
    });
    after(() => gateway.dispose());

    test('a tool that one session enables is listed, announced and callable in no other session, with a process or without', async () => {
      const [a, b, idle] = [await of('stateful'), await of('stateful'), await of('stateful')];
      const modern = await of('stateless');
      for (const user of [a, b, idle, modern]) await user.listen();
      const [pidOfA, pidOfB] = [await a.call('who'), await b.call('who')];
      await modern.call('who');
      assert.notEqual(pidOfA, pidOfB);
      await delay(SETTLE_MS);
      for (const user of [a, b, idle, modern]) user.reported.length = 0;

      await a.call('enable', { name: 'extra' });
      await delay(SETTLE_MS);
      assert.deepEqual(new Set(a.reported), new Set(LISTS));
      assert.equal(await a.lists('extra'), true);
      assert.deepEqual(await a.uses('extra'), Array(3).fill(`extra of ${pidOfA}`));
      const late = await of('stateful');
      for (const other of [b, idle, modern, late]) {
        assert.deepEqual(other.reported, []);
        assert.deepEqual([await other.lists('extra'), await other.lists('base')], [false, true]);
        assert.equal(await other.isRefused('extra'), true);
      }
      assert.deepEqual(await b.uses('base'), Array(3).fill(`base of ${pidOfB}`));

      // Another session enables the same tool: each session has its own.
      await b.call('enable', { name: 'extra' });
      await delay(SETTLE_MS);
      assert.deepEqual(new Set(b.reported), new Set(LISTS));
      assert.deepEqual(
        [await a.lists('extra'), await b.lists('extra'), await idle.lists('extra')],
        [true, true, false],
      );
      assert.deepEqual(await b.uses('extra'), Array(3).fill(`extra of ${pidOfB}`));
    });

    test('a tool that a process has just added can be used at once, and only by its session', async () => {
      const [a, b] = [await of('stateful'), await of('stateful')];
      const [pid] = [await a.call('who'), await b.call('who')];
      for (const name of ['t1', 't2', 't3']) {
        await a.call('enable', { name });
        assert.equal(await a.call(name), `${name} of ${pid}`);
        await a.call('enable', { name: `${name}-b` });
        assert.deepEqual(await a.uses(`${name}-b`), Array(3).fill(`${name}-b of ${pid}`));
        assert.equal(await b.isRefused(name), true);
      }
    });

    test('each conversation of clients without a session sees its own lists', async () => {
      const named = (name: string) => of('stateless', { headers: { 'x-conversation': name } });
      const [one, other] = [await named('one'), await named('other')];
      for (const user of [one, other]) await user.listen();
      assert.notEqual(await one.call('who'), await other.call('who'));
      await delay(SETTLE_MS);
      for (const user of [one, other]) user.reported.length = 0;
      await one.call('enable', { name: 'mine' });
      await delay(SETTLE_MS);
      assert.deepEqual(new Set(one.reported), new Set(LISTS));
      assert.deepEqual(other.reported, []);
      assert.deepEqual([await one.lists('mine'), await other.lists('mine')], [true, false]);
      assert.match(await one.call('mine'), /^mine of/);
      assert.equal(await other.isRefused('mine'), true);
    });

    test('a session loses its enabled tool when its process ends, and is notified', async () => {
      const user = await of('stateful');
      await user.listen();
      await user.call('enable', { name: 'passing' });
      await delay(SETTLE_MS);
      assert.equal(await user.lists('passing'), true);
      user.reported.length = 0;
      process.kill(Number(await user.call('who')), 'SIGKILL');
      await delay(SETTLE_MS);
      assert.equal(await user.lists('passing'), false);
      assert.ok(
        LISTS.every((method) => user.reported.includes(method)),
        user.reported.join(),
      );
    });
  });
}

test("S2.6 check:G4 a tool added by one session's process waits for approval, and is then in that session only", async (t) => {
  const own = { command: process.execPath, args: [TOOLSETS], drift: 'hold' };
  const gateway = await RunningGateway.start({ config: { mcpServers: { own } } });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const [a, b] = [await WireClient.open(gateway.mcpUrl), await WireClient.open(gateway.mcpUrl)];
  await a.callText('own__who');
  await b.callText('own__who');
  await a.call('own__enable', { name: 'extra' });
  await delay(SETTLE_MS);
  const tools = async () => [await a.toolNames(), await b.toolNames()].map((names) => names.includes('own__extra'));
  assert.deepEqual(await tools(), [false, false]);
  const { waiting } = await gateway.control<{ waiting: { list: string; key: string; digest: string }[] }>(
    '/api/v1/servers/own/drift',
  );
  const definitions = waiting.map(({ list, key, digest }) => ({ list, key, digest }));
  assert.deepEqual(definitions.map(({ key }) => key).sort(), ['extra', 'extra-prompt']);
  await gateway.control('/api/v1/servers/own/drift/approve', 'POST', JSON.stringify({ definitions }));
  assert.deepEqual(await tools(), [true, false]);
  assert.match(await a.callText('own__extra'), /^extra of/);
});
