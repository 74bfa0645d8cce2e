import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { WireChange } from '../../bus/wire.ts';
import type { KnownServers } from '../../cluster/nodes/known-servers.ts';
import type { Server } from '../../model/server.ts';
import { ServerAnnouncements } from './server-announcements.ts';

/** A node that has the `own` servers, in a cluster that serves `everywhere`. */
class Stage {
  readonly clock = new FakeClock();
  readonly announced: string[] = [];
  own: string[];
  everywhere: string[];
  same: string[] = [];
  connected = true;
  readonly events: ServerAnnouncements;
  #listener: (change: WireChange) => void = () => {};

  /** `more`: further members of the definitions, by server name. */
  constructor(
    own: string[],
    everywhere: string[],
    connected = true,
    more: Readonly<Record<string, Partial<Server>>> = {},
  ) {
    this.own = own;
    this.everywhere = everywhere;
    this.connected = connected;
    const stage = this;
    this.events = new ServerAnnouncements({
      clock: this.clock,
      operations: null,
      wire: {
        get connected() {
          return stage.connected;
        },
        publish: (subject, payload) => {
          if (this.connected) this.announced.push(`${subject.split('.')[2]} ${JSON.parse(payload.toString()).name}`);
        },
        onChange: (listener) => {
          this.#listener = listener;
          return () => {};
        },
      },
      registry: {
        get state() {
          return { servers: new Map(stage.own.map((name) => [name, serverNamed(name, more[name])])) };
        },
      },
      allUpstreams: { servers: () => this.everywhere.map((name) => serverNamed(name, more[name])) },
      known: {
        instances: (name) => (this.same.includes(name) ? [{} as ReturnType<KnownServers['instances']>[number]] : []),
        against: () => [],
      },
      logger: { redact: (text) => text },
    });
  }

  /** The cluster serves these now. */
  serve(...names: string[]): void {
    this.everywhere = names;
    this.events.update();
  }

  reconnect(): void {
    this.connected = true;
    this.#listener({ type: 'connected', resync: true });
  }

  /** Returns the announcements since the last call, up to a second from now. */
  async second(): Promise<string[]> {
    await this.clock.advance(1_000);
    return this.announced.splice(0);
  }
}

test('S0.4 a server that this node drops and another has is not reported as deleted; one that no node has is, once', async () => {
  const stage = new Stage(['web'], ['web', 'other']);
  stage.same = ['web'];
  stage.own = [];
  stage.serve('web', 'other');
  assert.deepEqual(await stage.second(), []);
  // Also a server that this node never had: the node that had it last may have restarted without it.
  stage.serve();
  await stage.clock.advance(999);
  assert.deepEqual(stage.announced, []);
  stage.events.update();
  await stage.clock.advance(1);
  assert.deepEqual(stage.announced.splice(0), ['deleted web', 'deleted other']);
  assert.deepEqual(await stage.second(), []);
});

test('S0.4 a server that moves from one node to another at the same time is not reported as gone', async () => {
  const stage = new Stage([], ['web']);
  stage.serve();
  await stage.clock.advance(900);
  stage.serve('web');
  assert.deepEqual(await stage.second(), []);
  stage.serve();
  assert.deepEqual(await stage.second(), ['deleted web']);
});

test('S0.3 a node announces its new and changed servers at once, and those that it has at its start', async () => {
  const stage = new Stage(['mine', 'shared'], ['mine', 'shared', 'theirs']);
  stage.same = ['shared'];
  assert.deepEqual(await stage.second(), ['created mine']);
  assert.deepEqual(await stage.second(), []);
  stage.events.changed(new Set(['shared', 'theirs']));
  assert.deepEqual(stage.announced, ['created shared']);
});

test('S0.3 a node does not announce again what it announced since its start', async () => {
  const stage = new Stage(['mine'], ['mine']);
  stage.own.push('late');
  stage.serve('mine', 'late');
  stage.events.changed(new Set(['late']));
  assert.deepEqual(await stage.second(), ['created late', 'created mine']);
});

test('S0.3 S0.4 events that could not be published are announced when NATS is back', async () => {
  const stage = new Stage(['mine'], ['mine', 'theirs'], false);
  stage.serve('mine');
  assert.deepEqual(await stage.second(), []);
  stage.reconnect();
  assert.deepEqual(await stage.second(), ['deleted theirs', 'created mine']);
  // The server may be served again by then.
  stage.connected = false;
  stage.serve();
  assert.deepEqual(await stage.second(), []);
  stage.serve('mine');
  stage.reconnect();
  assert.deepEqual(await stage.second(), ['created mine']);
});

test('S0.3 S0.4 check:A14 neither a server of one session nor a misconfigured one is announced', async () => {
  const names = ['mine', 'bound', 'wrong'];
  const more = { bound: { onlyFor: 's1' }, wrong: { misconfigured: 'TL1201 $TOKEN is not set' } };
  const stage = new Stage(names, names, true, more);
  assert.deepEqual(await stage.second(), ['created mine']);
  stage.events.changed(new Set(['bound', 'wrong']));
  stage.serve('mine', 'wrong');
  assert.deepEqual(await stage.second(), []);
});

test('S0.4 a node that closes announces pending removals at once, and none afterwards', async () => {
  const stage = new Stage(['mine'], ['mine', 'gone']);
  stage.serve('mine');
  stage.events.close();
  assert.deepEqual(stage.announced.splice(0), ['deleted gone']);
  stage.serve();
  assert.deepEqual(await stage.second(), []);
  assert.equal(stage.clock.pending, 0);
});
