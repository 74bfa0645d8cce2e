import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { HintingServer } from '../fixtures/http/hinting.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const TOOL = (name: string) => `{"name":"${name}","inputSchema":{"type":"object"}}`;
const MINUTE = '"ttlMs":60000,"cacheScope":"public"';
const BRIEF = '"ttlMs":1500,"cacheScope":"public"';

/** Polls a condition that no event announces; the limit is long enough for slow machines. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 45_000; !(await condition()); ) {
    if (performance.now() > end) throw new Error(`waited in vain for ${condition}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

describe('lists and handshake results with a time to live', { timeout: 120_000 }, () => {
  let lasting: HintingServer;
  let brief: HintingServer;
  let cut: HintingServer;
  let gateway: RunningGateway;

  before(async () => {
    [lasting, brief, cut] = await Promise.all([HintingServer.start(), HintingServer.start(), HintingServer.start()]);
    for (const server of [lasting, cut]) {
      server.handshakeHints = MINUTE;
      server.capabilities = '{"tools":{"listChanged":true}}';
      server.say.set('tools/list', () => `"tools":[${TOOL('a')},${TOOL('b')}],${MINUTE}`);
    }
    brief.capabilities = '{"prompts":{}}';
    brief.handshakeHints = BRIEF;
    brief.say.set('prompts/list', () => `"prompts":[{"name":"first"}],${BRIEF}`);
    gateway = await RunningGateway.start({
      config: {
        mcpServers: {
          lasting: { type: 'http', url: lasting.url },
          brief: { type: 'http', url: brief.url },
          cut: { type: 'http', url: cut.url, excludeTools: ['b'] },
        },
      },
    });
    await gateway.ready();
  });
  after(async () => {
    await gateway.dispose();
    await Promise.all([lasting.stop(), brief.stop(), cut.stop()]);
  });

  const client = (server: string | null) =>
    new WireClient(server === null ? gateway.mcpUrl : gateway.serverUrl(server), 'stateless');
  const names = (list: Json, key: string): string[] => list[key].map(({ name }: Json) => name);

  test('proto:C9 a list and a handshake result state their remaining time; a filtered list is private', async () => {
    const own = client('lasting');
    const first = await own.result('tools/list');
    const asked = lasting.count('tools/list');
    assert.deepEqual([names(first, 'tools'), first.cacheScope], [['a', 'b'], 'public']);
    let again = first;
    await until(async () => {
      again = await own.result('tools/list');
      return again.ttlMs < 60_000;
    });
    assert.deepEqual({ ...again, ttlMs: first.ttlMs }, first);
    assert.equal(lasting.count('tools/list'), asked);
    const handshake = await own.result('server/discover');
    assert.ok(
      handshake.ttlMs > 0 && handshake.ttlMs < 60_000 && handshake.cacheScope === 'public',
      JSON.stringify(handshake),
    );
    const filtered = await client('cut').result('tools/list');
    assert.deepEqual([names(filtered, 'tools'), filtered.cacheScope], [['a'], 'private']);
    const all = await client(null).result('tools/list');
    assert.deepEqual([all.tools.length, all.cacheScope], [3, 'private']);
    assert.ok(all.ttlMs > 0 && all.ttlMs <= 60_000);
  });

  test('proto:C7 proto:C9 on the aggregate an expired list is read again on request, and has a new time', async () => {
    const all = client(null);
    await until(async () => (await all.result('prompts/list')).ttlMs > 0);
    const taken = brief.count('prompts/list');
    // Its time runs out without a request: the gateway does not read it.
    const began = performance.now();
    await until(() => performance.now() - began > 2_000);
    assert.equal(brief.count('prompts/list'), taken);
    brief.say.set('prompts/list', () => `"prompts":[{"name":"second"}],${BRIEF}`);
    await until(async () => names(await all.result('prompts/list'), 'prompts')[0] === 'brief__second');
    const retaken = brief.count('prompts/list');
    assert.ok(retaken > taken);
    // An unchanged list gets a new time too.
    await until(async () => (await all.result('prompts/list')).ttlMs === 0 || brief.count('prompts/list') > retaken);
    await until(async () => (await all.result('prompts/list')).ttlMs > 0);
  });

  test('proto:C9 an expired handshake result is requested again on demand', async () => {
    const own = client('brief');
    const asked = brief.count('server/discover');
    brief.capabilities = '{"prompts":{},"x-more":{}}';
    let handshake: Json;
    await until(async () => {
      handshake = await own.result('server/discover');
      return handshake.capabilities['x-more'] !== undefined;
    });
    assert.ok(brief.count('server/discover') > asked);
    const session = new WireClient(gateway.serverUrl('brief'));
    assert.ok((await session.initialize()).capabilities['x-more'] !== undefined);
  });

  test('proto:C6 a notified change reaches the next request, on both endpoints', async () => {
    const own = client('lasting');
    const stream = await own.listening({ toolsListChanged: true });
    lasting.say.set('tools/list', () => `"tools":[${TOOL('c')}],${MINUTE}`);
    assert.deepEqual(names(await own.result('tools/list'), 'tools'), ['a', 'b'], 'no notification was sent yet');
    lasting.tell('notifications/tools/list_changed');
    assert.equal((await stream.message()).method, 'notifications/tools/list_changed');
    assert.deepEqual(names(await own.result('tools/list'), 'tools'), ['c']);
    const all = client(null);
    await until(async () => names(await all.result('tools/list'), 'tools').includes('lasting__c'));
    stream.drop();
  });
});
