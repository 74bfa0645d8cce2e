import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '@nats-io/transport-node';
import { ToolClient } from '../../src/client.ts';
import { SUBJECT_CREATED, SUBJECT_DELETED, subjectExecute, subjectListTools } from '../../src/compat/index.ts';
import {
  type LogEntry,
  memoryMessengers,
  natsMessenger,
  type Operation,
  openNode,
  type ServerStore,
  type StoredServer,
} from '../../src/index.ts';
import { SECRET } from '../support/cluster-bench.ts';
import { until } from '../support/cluster-processes.ts';
import { NatsServer } from '../support/nats-server.ts';
import { textResult, textServer, tool } from '../support/text-server.ts';

const ROWS = 1_203;
const PAGE = 500;
const config = { agents: { ann: { key: 'key-of-agent-ann-0123' } } };

/** Gives the rows in pages, as a database does. */
class PagedStore implements ServerStore {
  readonly cursors: (string | null)[] = [];
  readonly #rows: readonly StoredServer[];

  constructor(rows: readonly StoredServer[]) {
    this.#rows = rows;
  }

  async list(cursor: string | null) {
    this.cursors.push(cursor);
    const from = Number(cursor ?? 0);
    const next = from + PAGE < this.#rows.length ? String(from + PAGE) : null;
    return { servers: this.#rows.slice(from, from + PAGE), next };
  }
}

const says = (text: string) => textServer({ tools: () => [tool('say')], call: () => textResult(text) });

function rows(): StoredServer[] {
  const all: unknown[] = Array.from({ length: ROWS - 8 }, (_, i) => {
    return { name: `server-${i}`, definition: { url: 'http://127.0.0.1:1/mcp', start: 'lazy' } };
  });
  const cyclic: Record<string, unknown> = { command: 'node' };
  cyclic['env'] = cyclic;
  all.unshift(
    null,
    { name: 'no definition' },
    { name: 'wrong', definition: { command: 5 } },
    { name: 'cyclic', definition: cyclic },
    { name: 'unset', definition: { command: 'node', env: { A: '${TRUNKLINE_NOT_SET_ANYWHERE}' } } },
    { name: 'failing', definition: { command: '/nowhere/there/is/none' } },
  );
  // These two are on the last page: they are there only if all pages were read.
  all.push({ name: 'words', definition: says('hello') }, { name: 'Server-7', definition: says('taken') });
  return all as StoredServer[];
}

function one(operations: readonly Operation[], name: string, server: string): Operation | undefined {
  return operations.find((operation) => operation.name === name && operation.server === server);
}

test('S0.12 check:A2 check:K2 openNode serves all rows of a store over NATS, reports those that fail, and calls its tracker for every operation', async () => {
  await using nats = await NatsServer.start();
  const program = await connect({ servers: nats.url });
  const operations: Operation[] = [];
  const log: LogEntry[] = [];
  const store = new PagedStore(rows());
  const logger = (entry: LogEntry) => void log.push(entry);
  const messenger = () => natsMessenger({ nats: nats.url, secret: SECRET });
  const tracker = (operation: Operation) => void operations.push(operation);
  const common = { config, publicPrincipal: 'ann' };
  try {
    await using a = await openNode({ ...common, store, messenger: await messenger(), node: 'a', tracker, logger });
    const empty = new PagedStore([]);
    await using b = await openNode({ ...common, store: empty, messenger: await messenger(), node: 'b', tracker: null });
    assert.deepEqual(store.cursors, [null, '500', '1000']);
    assert.equal(a.activeServers().length, ROWS - 6);
    const [words, failing] = await a.ready({ servers: ['failing', 'words'] }).then((all) => all.toReversed());
    assert.deepEqual([words?.state, failing?.state], ['running', 'failed']);
    const skipped = log.filter(({ event }) => event === 'stored_server_skipped').map(({ fields }) => fields['server']);
    assert.deepEqual(skipped, ['undefined', 'no definition', 'wrong', 'cyclic', 'unset', 'Server-7']);
    assert.match(one(operations, 'start', 'wrong')!.error!.message, /command/);
    assert.match(one(operations, 'start', 'failing')!.error!.message, /nowhere/);
    const started = one(operations, 'start', 'words')!;
    assert.deepEqual([started.subject, started.error], ['words', null]);

    // Either node may take the call; the other node closes before the calls of this node are checked.
    await until(() => b.server('words') !== null, 'the other node to know the server');
    assert.equal((await b.callTool('words__say')).content[0]?.text, 'hello');
    await b.close();
    const client = new ToolClient(program, { timeoutMs: 10_000 });
    assert.equal((await client.call('words', 'say')).result, 'hello');
    assert.deepEqual(
      (await client.tools('words')).map(({ name }) => name),
      ['say'],
    );
    const called = one(operations, 'execute', 'words')!;
    assert.deepEqual([called.subject, called.error], [subjectExecute('words'), null]);
    assert.ok(called.durationMs > 0 && called.durationMs < 10_000);
    assert.deepEqual(one(operations, 'list-tools', 'words')!.subject, subjectListTools('words'));
    await assert.rejects(client.call('failing', 'say'));
    assert.match(one(operations, 'execute', 'failing')!.error!.message, /failing/);
    assert.equal((await a.callTool('words__say')).content[0]?.text, 'hello');
    assert.ok(operations.some(({ name, subject }) => name === 'tools/call' && subject === '/mcp'));

    await a.registerServer('later', says('later'));
    assert.equal(one(operations, 'created', 'later')!.subject, SUBJECT_CREATED);
    await a.unregisterServer('later');
    await until(() => one(operations, 'deleted', 'later') !== undefined, 'the event');
    assert.equal(one(operations, 'deleted', 'later')!.subject, SUBJECT_DELETED);
    assert.deepEqual(
      [one(operations, 'stop', 'later')!.subject, one(operations, 'stop', 'later')!.error],
      ['later', null],
    );
  } finally {
    await program.close();
  }
});

test('S0.12 a store that fails on any page rejects openNode with its error, and the messenger is closed', async () => {
  await using nats = await NatsServer.start();
  const down = new Error('the database is down');
  const stores: ServerStore[] = [
    { list: () => Promise.reject(down) },
    {
      list(cursor) {
        if (cursor !== null) throw down;
        return { servers: [{ name: 'words', definition: says('hello') }], next: '1' };
      },
    },
  ];
  for (const store of stores) {
    const messenger = await natsMessenger({ nats: nats.url, secret: SECRET });
    await assert.rejects(openNode({ store, messenger }), down);
    assert.equal(messenger.wire.status.state, 'closed');
  }
  const endless = { list: () => ({ servers: [], next: 'again' }) };
  await assert.rejects(openNode({ store: endless, messenger: memoryMessengers()() }), /the cursor again twice/);
  await assert.rejects(natsMessenger({ nats: 'http://nowhere', secret: SECRET }), { name: 'ConfigError' });
});

test('S0.12 check:K2 an exception or rejection of a tracker is logged, and no call fails because of it', async () => {
  const messenger = memoryMessengers();
  const trackers = [
    () => {
      throw new Error('the tracker is broken');
    },
    async () => {
      throw new Error('the tracker is broken');
    },
  ];
  for (const tracker of trackers) {
    const log: LogEntry[] = [];
    await using node = await openNode({
      store: { list: () => ({ servers: [{ name: 'words', definition: says('hello') }], next: null }) },
      messenger: messenger(),
      logger: (entry) => void log.push(entry),
      tracker,
    });
    await node.ready();
    assert.equal((await node.callTool('words__say')).content[0]?.text, 'hello');
    await until(() => log.some(({ fields }) => fields['operation'] === 'tools/call'), 'the log');
    const failed = log.filter(({ event }) => event === 'tracker_failed');
    assert.deepEqual(new Set(failed.map(({ fields }) => fields['operation'])), new Set(['start', 'tools/call']));
    assert.match(JSON.stringify(failed[0]), /the tracker is broken/);
  }
});
