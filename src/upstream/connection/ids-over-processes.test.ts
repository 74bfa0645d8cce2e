import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statefulScript } from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  httpServerOf,
  Remembered,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { systemRandom } from '../../model/random.ts';
import { ID_BLOCK, type SessionMember, type SharedUpstreamSessions } from '../../model/shared-upstream-sessions.ts';
import type { TransportReceiver } from '../transport/transport.ts';
import { Connection } from './connection.ts';

/** Processes of a lone node, one after the other, that go on with one session of an HTTP server. */
class Processes {
  readonly script = statefulScript();
  readonly remembered = new Remembered();
  readonly connections: Connection[] = [];

  constructor() {
    const { handlers } = this.script;
    const { initialize } = handlers;
    handlers['initialize'] = (params, link, id) => {
      link.sessionId('upstream');
      return initialize!(params, link, id);
    };
    const opened = this.script.open.bind(this.script);
    this.script.open = (...how) => {
      const link = opened(...how);
      const open = link.open.bind(link);
      link.open = (receiver: TransportReceiver) => {
        if (receiver instanceof Connection) this.connections.push(receiver);
        return open(receiver);
      };
      return link;
    };
  }

  async begin(sharedUpstreamSessions?: SharedUpstreamSessions): Promise<UpstreamBench> {
    const bench = new UpstreamBench({ remembered: this.remembered, random: systemRandom, sharedUpstreamSessions });
    await bench.run([httpServerOf('a'), this.script]);
    return bench;
  }

  /** What the session's next request has for an id. */
  async call(bench: UpstreamBench): Promise<number> {
    answerText(await bench.call('a', toolCall(clientOf('one'))));
    return Number(this.script.links.findLast((link) => link.count('tools/call') > 0)!.lastOf('tools/call').id);
  }

  /** As if the session had had so many requests by now. */
  reach(id: number): void {
    this.connections.find(({ mcpSessionId, live }) => live && mcpSessionId !== null)!.numberAfter(id);
  }
}

test('check:B4 a session of more requests than a block has ids is gone on with above all of them', async () => {
  const processes = new Processes();
  let before = 0;
  for (const blocks of [1, 2, 3]) {
    const bench = await processes.begin();
    const first = await processes.call(bench);
    assert.ok(first > before, `${first} after ${before}`);
    // So many in each process, one block after the other.
    let last = first;
    for (let block = Math.floor(first / ID_BLOCK), left = blocks; left > 0; block++, left--) {
      processes.reach((block + 0.5) * ID_BLOCK - 1);
      last = await processes.call(bench);
      processes.reach((block + 1) * ID_BLOCK);
      last = await processes.call(bench);
    }
    before = last;
    await bench.set.close('shutdown');
  }
  assert.equal(processes.script.links.filter((link) => link.count('initialize') > 0).length, 1);
});

test('check:B4 a process that died before it had written that it goes on with a session leaves its ids to nobody else', async () => {
  const processes = new Processes();
  const { map } = processes.remembered.sessions;
  const first = await processes.begin();
  await processes.call(first);
  await first.set.close('shutdown');
  const written = [...map];
  const ids = new Set<number>();
  for (let i = 0; i < 3; i++) {
    for (const [key, record] of written) map.set(key, record);
    const bench = await processes.begin();
    ids.add(await processes.call(bench));
    await bench.set.close('shutdown');
  }
  assert.equal(ids.size, 3);
});

test('check:B4 of a session that all nodes use they are told, once in each block, that another one is needed', async () => {
  const told: SessionMember[] = [];
  const joined: SessionMember[] = [];
  const sessions: SharedUpstreamSessions = {
    enter: async () => ({ kind: 'turn', replaces: false, opened: async () => 'first', failed: async () => {} }),
    known: async () => false,
    join: (_place, member) => void joined.push(member),
    idsSpent: (_place, member) => void told.push(member),
    leave: () => {},
    end: async () => null,
  };
  const processes = new Processes();
  const bench = await processes.begin(sessions);
  await processes.call(bench);
  assert.deepEqual([joined.length, told.length], [1, 0]);
  for (const block of [0, 1]) {
    processes.reach((block + 0.5) * ID_BLOCK - 1);
    for (let i = 0; i < 3; i++) await processes.call(bench);
    assert.deepEqual(told, Array(block + 1).fill(joined[0]));
  }
  await bench.set.close('shutdown');
});
