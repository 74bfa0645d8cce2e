import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { followed } from '../../test/support/followed-events.ts';
import { createGateway } from '../index.ts';
import type { SessionCensus } from '../model/ports.ts';
import type { ServerState } from '../model/server-state.ts';
import { newServerEvents } from '../telemetry/server-events.ts';
import { ConditionWatch } from './condition-watch.ts';

function rig() {
  const clock = new FakeClock();
  const facts = {
    states: new Map<string, ServerState>([['a', 'running']]),
    withheld: 0,
    silent: new Map<string, number>(),
    bus: 'connected',
    writable: true,
    share: 0.1,
    processes: 1,
    sessions: 0,
    census: undefined as Pick<SessionCensus, 'nodes' | 'count'> | undefined,
    store: null as string | null,
    alarms: [] as string[],
  };
  const heard: string[] = [];
  const serverEvents = newServerEvents('r', () => 0, {
    recovery() {},
    listItemInvalid() {},
    loginNeeded() {},
    condition: (name, server, reason) => heard.push(`${name} ${server ?? '-'} ${reason ?? 'over'}`),
  });
  const components = {
    clock,
    serverEvents,
    registry: {
      get state() {
        return { servers: facts.states, sessions: { max: 100 } };
      },
    },
    allUpstreams: { state: (server: string) => facts.states.get(server) ?? null },
    gateway: { drift: { summary: () => ({ withheld: facts.withheld }) } },
    cluster: { peers: facts },
    connection: {
      bus: {
        get status() {
          return { state: facts.bus, lastError: null };
        },
      },
    },
    memory: facts,
    stateFile: facts,
    records: facts,
    upstreams: {
      get processes() {
        return { running: facts.processes, limit: 10 };
      },
    },
    downstream: {
      sessions: {
        get size() {
          return facts.sessions;
        },
      },
    },
  };
  const store = {
    get problem() {
      return facts.store;
    },
  };
  const watch = new ConditionWatch(components as never, facts, store);
  watch.start();
  const next = async (): Promise<string[]> => {
    await clock.advance(2_000);
    return heard.splice(0);
  };
  return { clock, facts, heard, next };
}

test('each condition is reported once when it begins and once when it ends', async () => {
  const { facts, next } = rig();
  assert.deepEqual(await next(), []);
  for (const [change, back, said] of [
    [() => facts.states.set('a', 'defect'), () => facts.states.set('a', 'running'), 'server_down a it is defect'],
    [
      () => facts.states.set('a', 'auth_required'),
      () => facts.states.delete('a'),
      'login_needed a it asks for a sign-in',
    ],
    [
      () => (facts.writable = false),
      () => (facts.writable = true),
      'disk_not_writable - the data folder cannot be written',
    ],
    [() => (facts.share = 0.93), () => (facts.share = 0.5), 'memory_short - 93 % of the memory is in use'],
    [
      () => (facts.processes = 9),
      () => (facts.processes = 8),
      'processes_near_limit - 9 of 10 processes (maxProcesses)',
    ],
    [
      () => (facts.sessions = 90),
      () => (facts.sessions = 0),
      'sessions_near_limit - 90 of 100 sessions (sessions.max)',
    ],
    [
      () => (facts.store = 'gone'),
      () => (facts.store = null),
      'store_unreachable - the store of the cluster cannot be read: gone',
    ],
    [() => facts.alarms.push('x'), () => facts.alarms.pop(), 'configuration_unreadable - x'],
    [
      () => (facts.bus = 'lost'),
      () => (facts.bus = 'connected'),
      'bus_lost - the bus of the cluster cannot be reached',
    ],
    [() => facts.silent.set('n1', 0), () => facts.silent.delete('n1'), 'node_lost - gone without leaving: n1'],
  ] as const) {
    change();
    assert.deepEqual(await next(), [said]);
    assert.deepEqual(await next(), []);
    back();
    assert.deepEqual(await next(), [`${said.split(' ').slice(0, 2).join(' ')} over`]);
  }
  facts.states.set('a', 'running');
  facts.withheld = 2;
  assert.deepEqual(await next(), ['drift_blocked a 2 definitions wait for approval and are withheld']);
  facts.withheld = 0;
  assert.deepEqual(await next(), ['drift_blocked a over']);
  // One check examines the definitions of 20 servers.
  facts.withheld = 1;
  for (let i = 0; i < 99; i++) facts.states.set(`s${i}`, 'running');
  for (let i = 0; i < 5; i++) assert.equal((await next()).length, 20);
});

test('in a cluster the sessions of all nodes count, and not those that this node has at hand', async () => {
  const { facts, next } = rig();
  let open = 100;
  facts.census = { nodes: 3, count: () => open };
  facts.sessions = 100;
  assert.deepEqual(await next(), []);
  facts.sessions = 0;
  open = 270;
  assert.deepEqual(await next(), ['sessions_near_limit - 270 of 300 sessions (sessions.max)']);
  facts.census = { nodes: 4, count: () => open };
  assert.deepEqual(await next(), ['sessions_near_limit - over']);
});

test('a server that is tried again is down after a minute', async () => {
  const { facts, heard, next } = rig();
  await next();
  facts.states.set('a', 'failed');
  for (let i = 0; i < 29; i++) await next();
  assert.deepEqual(heard, []);
  // The server runs for a moment: the minute starts again.
  facts.states.set('a', 'running');
  await next();
  facts.states.set('a', 'unreachable');
  for (let i = 0; i < 30; i++) assert.deepEqual(await next(), []);
  assert.deepEqual(await next(), ['server_down a it is unreachable']);
});

test('programs and the event stream get the condition of a server that cannot start, and its end on removal', {
  timeout: 30_000,
}, async () => {
  await using gateway = await createGateway({ config: { mcpServers: { bad: { url: 'ftp://x' } } } });
  const { controlUrl, controlToken } = await gateway.listen({ port: 0, controlPort: 0 });
  const events = await followed(controlUrl, controlToken);
  const heard = Promise.withResolvers<void>();
  const reported: unknown[] = [];
  gateway.on('condition', (...said) => {
    reported.push(said);
    if (said[2] === null) heard.resolve();
    else void gateway.unregisterServer('bad');
  });
  const told = (await events(({ holds }) => holds === false)).filter(({ type }) => type === 'condition');
  await heard.promise;
  assert.deepEqual(reported, [
    ['server_down', 'bad', 'it is misconfigured'],
    ['server_down', 'bad', null],
  ]);
  assert.deepEqual(
    told.map(({ condition, server, holds, reason }) => [condition, server, holds, reason]),
    [
      ['server_down', 'bad', true, 'it is misconfigured'],
      ['server_down', 'bad', false, null],
    ],
  );
});
