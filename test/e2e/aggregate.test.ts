import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

describe('S2.30 check:D3 the aggregate in front of servers of both eras, one of them with pages', () => {
  let gateway: RunningGateway;
  before(async () => {
    const mcpServers = {
      old: manySided('old', { TOOLS: '25', PAGE: '12' }),
      new: manySided('new', { ERA: 'stateless' }),
    };
    gateway = await RunningGateway.start({ config: { mcpServers } });
    await gateway.ready();
  });
  after(() => gateway.dispose());

  for (const era of ['stateful', 'stateless'] as const) {
    const opened = async () => {
      const client = new WireClient(gateway.mcpUrl, era);
      if (era === 'stateful') await client.initialize();
      return client;
    };

    test(`every page of every member, in the same order every time (${era})`, async () => {
      const client = await opened();
      const names = await client.toolNames();
      assert.equal(names.length, 35 + 10);
      assert.equal(new Set(names).size, names.length);
      assert.ok(names.includes('old__t24') && names.includes('new__who'));
      assert.deepEqual(await client.toolNames(), names);
    });

    test(`a bare name that one server has leads there, one that both have is ambiguous (${era})`, async () => {
      const client = await opened();
      assert.equal(await client.callText('t7'), 't7');
      const { message } = await client.request('tools/call', { name: 'echo', arguments: { text: 'x' } });
      assert.match(JSON.stringify(message), /old__echo|new__echo/);
    });

    test(`resources, templates, prompts and completion are merged and routed (${era})`, async () => {
      const client = await opened();
      const { resources } = await client.result('resources/list');
      assert.deepEqual(resources.map(({ uri }: { uri: string }) => uri).sort(), ['side://new/doc', 'side://old/doc']);
      const { resourceTemplates } = await client.result('resources/templates/list');
      assert.equal(resourceTemplates.length, 2);
      const { prompts } = await client.result('prompts/list');
      assert.deepEqual(prompts.map(({ name }: { name: string }) => name).sort(), ['new__greet', 'old__greet']);
      for (const name of ['old', 'new']) {
        const read = await client.result('resources/read', { uri: `side://${name}/items/7` });
        assert.equal(read.contents[0].text, `read by ${name}`);
        const prompt = await client.result('prompts/get', { name: `${name}__greet`, arguments: { who: 'ada' } });
        assert.equal(prompt.messages[0].content.text, `hello ada from ${name}`);
        const byPrompt = await client.result('completion/complete', {
          ref: { type: 'ref/prompt', name: `${name}__greet` },
          argument: { name: 'who', value: 'a' },
        });
        assert.deepEqual(byPrompt.completion.values, [`a-${name}`]);
        const byTemplate = await client.result('completion/complete', {
          ref: { type: 'ref/resource', uri: `side://${name}/items/{id}` },
          argument: { name: 'id', value: 'b' },
        });
        assert.deepEqual(byTemplate.completion.values, [`b-${name}`]);
        assert.equal(await client.callText(`${name}__echo`, { text: `to ${name}` }), `to ${name}`);
      }
    });

    test(`on the endpoint of one server, of either era, all names are its own (${era})`, async () => {
      for (const name of ['old', 'new']) {
        const client = new WireClient(gateway.serverUrl(name), era);
        const handshake = era === 'stateful' ? await client.initialize() : await client.result('server/discover');
        assert.equal(handshake.instructions, 'of many sides');
        assert.ok((await client.toolNames()).includes('echo'));
        assert.equal(await client.callText('echo', { text: 'x' }), 'x');
        assert.equal((await client.result('resources/read', { uri: `side://${name}/doc` })).contents.length, 1);
        assert.equal((await client.result('prompts/get', { name: 'greet', arguments: {} })).messages.length, 1);
        const { completion } = await client.result('completion/complete', {
          ref: { type: 'ref/prompt', name: 'greet' },
          argument: { name: 'who', value: 'a' },
        });
        assert.deepEqual(completion.values, [`a-${name}`]);
        const fail = await client.call('fail');
        assert.equal(fail.isError, true);
      }
    });
  }

  test('cache hints: the lowest ttlMs of the members, and private if one of them is private', async () => {
    const aggregate = new WireClient(gateway.mcpUrl, 'stateless');
    const list = await aggregate.result('tools/list');
    assert.deepEqual([list.ttlMs, list.cacheScope], [0, 'private']);
    const alone = new WireClient(gateway.serverUrl('new'), 'stateless');
    const own = await alone.result('tools/list');
    // If the list was read before, ttlMs is the remaining time.
    assert.ok(own.ttlMs > 0 && own.ttlMs <= 60_000, String(own.ttlMs));
    assert.equal(own.cacheScope, 'public');
  });

  test('subscriptions reach the server, and its updates and the log messages of a call reach the client', async () => {
    const client = await WireClient.open(gateway.mcpUrl);
    const stream = await client.listen();
    await client.result('resources/subscribe', { uri: 'side://old/doc' });
    const update = await stream.message();
    assert.deepEqual([update.method, update.params.uri], ['notifications/resources/updated', 'side://old/doc']);
    await client.result('logging/setLevel', { level: 'info' });
    const { before: said } = await client.request('tools/call', { name: 'old__log', arguments: { text: 'a word' } });
    const heard = said.length > 0 ? said[0] : await stream.message();
    assert.deepEqual([heard.method, heard.params.data], ['notifications/message', 'a word']);
    stream.drop();
  });

  test('a server that adds a tool: the client of its process, of either era, is notified and sees it', async () => {
    const old = await WireClient.open(gateway.mcpUrl);
    const stream = await old.listen();
    const modern = new WireClient(gateway.mcpUrl, 'stateless');
    const listen = await modern.listening({ toolsListChanged: true });
    for (const [client, reported, tool] of [
      [old, stream, 'grown'],
      [modern, listen, 'modern'],
    ] as const) {
      await client.call('old__grow', { name: tool });
      assert.equal((await reported.message()).method, 'notifications/tools/list_changed');
      assert.ok((await client.toolNames()).includes(`old__${tool}`));
    }
    assert.ok(!(await modern.toolNames()).includes('old__grown'));
    stream.drop();
    listen.drop();
  });
});

test('a server that was never listed delays a list for firstListWaitMs; then ttlMs 0, and list_changed', async (t) => {
  const config = {
    mcpServers: { quick: manySided('quick'), late: manySided('late', { START_MS: '4000' }) },
    firstListWaitMs: 500,
  };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  await gateway.ready('quick');
  const client = await WireClient.open(gateway.mcpUrl);
  const stream = await client.listen();
  assert.equal(await client.callText('quick__echo', { text: 'at once' }), 'at once');
  const modern = new WireClient(gateway.mcpUrl, 'stateless');
  const list = await modern.result('tools/list');
  assert.equal(list.ttlMs, 0);
  assert.ok(!(await client.toolNames()).some((name) => name.startsWith('late__')));
  assert.ok((await new WireClient(gateway.serverUrl('quick'), 'stateless').toolNames()).includes('echo'));
  while (!(await client.toolNames()).includes('late__echo')) {
    assert.match((await stream.message()).method, /list_changed$/);
  }
  stream.drop();
});

test('after a restart the last known catalogue of a dead server is served, its state is shown, its calls have the reason', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-program-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const program = join(folder, 'b.mjs');
  copyFileSync(MANY_SIDED, program);
  const config = { mcpServers: { a: manySided('a'), b: { ...manySided('b'), args: [program] } } };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  await gateway.ready();
  const client = await WireClient.open(gateway.mcpUrl);
  const names = await client.toolNames();
  await sleep(200);
  await gateway.stop();
  rmSync(program);
  const again = await RunningGateway.start({ config, folder: gateway.folder });
  t.after(() => again.dispose());
  const newcomer = await WireClient.open(again.mcpUrl);
  assert.deepEqual(await newcomer.toolNames(), names);
  const { message } = await newcomer.request('tools/call', { name: 'b__echo', arguments: {} });
  assert.match(JSON.stringify(message), /exited|could not be started/i);
  const { servers } = await again.control<{ servers: { name: string; state: string; catalogFromStore: boolean }[] }>(
    '/api/v1/servers',
  );
  const b = servers.find(({ name }) => name === 'b')!;
  assert.deepEqual([b.state, b.catalogFromStore], ['failed', true]);
});
