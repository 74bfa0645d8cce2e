import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { pinRecordsContract } from '../../../../test/contracts/pin-records.contract.ts';
import { runTimeStoreContract } from '../../../../test/contracts/run-time-store.contract.ts';
import { FakeClock } from '../../../../test/support/fake-clock.ts';
import { PostgresServer } from '../../../../test/support/postgres-server.ts';
import { systemClock } from '../../../model/clock.ts';
import { systemRandom } from '../../../model/random.ts';
import { StoredPins } from '../stored-pins.ts';
import { PostgresRunTimeStore } from './postgres-run-time-store.ts';

const change = (value: string) => [{ kind: 'put', collection: 'c', key: 'k', value }] as const;

describe('the run-time store in PostgreSQL', { timeout: 120_000 }, () => {
  let server: PostgresServer;
  const opened: PostgresRunTimeStore[] = [];
  before(async () => {
    server = await PostgresServer.start();
  });
  after(async () => {
    for (const runTimeStore of opened) await runTimeStore.close();
    await server?.[Symbol.asyncDispose]();
  });

  function open(schema: string, url = server.url): PostgresRunTimeStore {
    const runTimeStore = new PostgresRunTimeStore({ url, schema, clock: systemClock });
    opened.push(runTimeStore);
    return runTimeStore;
  }

  /** Runs a statement as another program would. */
  async function run(statement: string): Promise<void> {
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query(statement);
    await client.end();
  }

  runTimeStoreContract('PostgreSQL', { open });
  pinRecordsContract('PostgreSQL', { open: (name) => new StoredPins(open(name), systemRandom) });

  test('eight nodes that migrate at once wait for each other, and see what one of them writes', async () => {
    const nodes = Array.from({ length: 8 }, () => open('migrating'));
    await Promise.all(nodes.map((node) => node.read(['c'])));
    assert.deepEqual(await nodes[0]!.apply(change('1')), { ok: true, revision: 1 });
    for (const node of nodes) assert.equal((await node.list('c'))[0]?.value, '1');
  });

  test('changes of several nodes are serialised: no revision is issued twice', async () => {
    const nodes = [open('racing'), open('racing'), open('racing')];
    const applied = await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        nodes[i % 3]!.apply([{ kind: 'put', collection: 'c', key: `${i}`, value: '0' }]),
      ),
    );
    assert.deepEqual(
      applied.map((one) => (one.ok ? one.revision : 0)).sort((a, b) => a - b),
      Array.from({ length: 60 }, (_, i) => i + 1),
    );
  });

  test('tables of a later version are refused with the remedy, and stay unchanged', async () => {
    await open('later').apply(change('1'));
    await run('INSERT INTO later.version VALUES (99)');
    await assert.rejects(open('later').read(['c']), {
      fault: 'unavailable',
      message: /its tables have version 99, .*; run the newer one/,
    });
  });

  test('foreign changes in the tables are detected', async () => {
    const runTimeStore = open('edited');
    await runTimeStore.apply(change('1'));
    await run(`UPDATE edited.records SET value = '2'`);
    await assert.rejects(runTimeStore.read(['c']), { fault: 'damaged' });
    await assert.rejects(runTimeStore.apply(change('3')), { fault: 'damaged' });
  });

  test('an error names the database and not the password', async () => {
    const runTimeStore = open('away', 'postgresql://someone:geheim@127.0.0.1:9/none');
    await assert.rejects(runTimeStore.read(['c']), (error: Error) => {
      assert.match(error.message, /PostgreSQL at 127\.0\.0\.1:9\/none: .*ECONNREFUSED/);
      assert.doesNotMatch(error.message, /geheim/);
      return true;
    });
  });

  test('after a COMMIT without an answer the node asks the database for the result', async (t) => {
    const line = await CutAtCommit.start(t, server.port);
    const runTimeStore = open('cut', server.urlAt(line.port));
    await runTimeStore.apply(change('0'));
    line.cut = 'after';
    assert.deepEqual(await runTimeStore.apply(change('made')), { ok: true, revision: 2 });
    line.cut = 'before';
    await assert.rejects(runTimeStore.apply(change('not made')), { fault: 'unavailable' });
    assert.equal((await runTimeStore.list('c'))[0]?.value, 'made');
  });

  test('a change that was given up before its commit is not made later, however slow the database is', async () => {
    const clock = new FakeClock();
    const runTimeStore = new PostgresRunTimeStore({ url: server.url, schema: 'slow', clock });
    opened.push(runTimeStore);
    await runTimeStore.apply(change('0'));
    const [other, watch] = [new pg.Client(server.url), new pg.Client(server.url)];
    await Promise.all([other.connect(), watch.connect()]);
    const found = async (condition: string) =>
      (await watch.query(`SELECT pid FROM pg_stat_activity WHERE ${condition}`)).rows[0]?.pid ?? null;
    await other.query('BEGIN; SELECT * FROM slow.whole FOR UPDATE');
    const late = runTimeStore.apply(change('late'));
    let pid: number | null = null;
    while (pid === null) pid = await found(`wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE%'`);
    const refused = assert.rejects(late, { fault: 'unavailable', message: /did not answer within 15 s/ });
    await clock.advance(15_000);
    await refused;
    await other.query('COMMIT');
    while ((await found(`pid = ${pid}`)) !== null);
    assert.equal((await runTimeStore.list('c'))[0]?.value, '0');
    assert.deepEqual(await runTimeStore.apply(change('1')), { ok: true, revision: 2 });
    await Promise.all([other.end(), watch.end()]);
  });

  test('fault:F31 a node that freezes in the middle of a change does not block the others, and has not made the change', async (t) => {
    const line = await CutAtCommit.start(t, server.port);
    const stopped = open('still', server.urlAt(line.port));
    await stopped.apply(change('0'));
    line.cut = 'stuck';
    const stuck = new Promise<void>((resolve) => {
      line.onCut = resolve;
    });
    const late = assert.rejects(stopped.apply(change('late')), { fault: 'unavailable' });
    await stuck;
    const other = open('still');
    assert.deepEqual(await other.apply(change('1')), { ok: true, revision: 2 });
    await late;
    assert.equal((await other.list('c'))[0]?.value, '1');
  });

  test('if the database cannot be asked either, the result of the change is unknown', async (t) => {
    const line = await CutAtCommit.start(t, server.port);
    const runTimeStore = open('gone', server.urlAt(line.port));
    await runTimeStore.apply(change('0'));
    line.cut = 'for good';
    await assert.rejects(runTimeStore.apply(change('1')), { fault: 'unknown', message: /before repeating it/ });
  });

  test('the node reconnects to a restarted database with everything that was acknowledged', async () => {
    const runTimeStore = open('restarted');
    await runTimeStore.apply(change('1'));
    await server.kill();
    await assert.rejects(runTimeStore.read(['c']), { fault: 'unavailable' });
    await server.run();
    assert.equal((await runTimeStore.list('c'))[0]?.value, '1');
    assert.deepEqual(await runTimeStore.apply(change('2')), { ok: true, revision: 2 });
  });
});

/** A TCP proxy in front of the database that breaks connections at a COMMIT. */
class CutAtCommit {
  /**
   * `after`: the COMMIT passes, its answer does not. `for good`: like `after`, and later connections fail. `stuck`: the
   * COMMIT does not pass, and the connection stays open.
   */
  cut: 'never' | 'before' | 'after' | 'for good' | 'stuck' = 'never';
  onCut: () => void = () => {};
  readonly #target: number;
  #shut = false;
  readonly #server = createServer((near) => this.#carry(near));

  static async start(t: { after(done: () => void): void }, target: number): Promise<CutAtCommit> {
    const line = new CutAtCommit(target);
    await new Promise<void>((done) => line.#server.listen(0, '127.0.0.1', done));
    t.after(() => void line.#server.close());
    return line;
  }

  private constructor(target: number) {
    this.#target = target;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  #carry(near: Socket): void {
    if (this.#shut) {
      near.destroy();
      return;
    }
    const far = connect(this.#target, '127.0.0.1');
    near.on('error', () => {}).on('close', () => far.destroy());
    far.on('error', () => {}).on('close', () => near.destroy());
    let muted = false;
    far.on('data', (bytes) => {
      if (muted) near.destroy();
      else near.write(bytes);
    });
    near.on('data', (bytes) => {
      const { cut } = this;
      if (cut === 'never' || !bytes.includes('COMMIT')) {
        far.write(bytes);
        return;
      }
      this.cut = 'never';
      this.#shut = cut === 'for good';
      this.onCut();
      if (cut === 'before') near.destroy();
      else if (cut !== 'stuck') {
        muted = true;
        far.write(bytes);
      }
    });
  }
}
