import { writeSync } from 'node:fs';
import { systemClock } from '../../src/model/clock.ts';
import { StoredServers } from '../../src/registry/stored-definitions.ts';
import { SqliteRunTimeStore } from '../../src/store/run-time-store/sqlite-run-time-store.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { STEPS, stepOf } from './run-time-store-steps.ts';

/**
 * A process that changes the store of run-time servers step by step, and prints each step once it is acknowledged; the
 * test kills it midway. Arguments: the file, the number of steps done before, and the pause in ms after each step.
 */
const [file, begin, restMs = '0'] = process.argv.slice(2);
const runTimeStore = new SqliteRunTimeStore({ path: file!, clock: systemClock, logger: Logger.silent() });
const store = new StoredServers(runTimeStore);
for (let i = Number(begin); i < STEPS; i++) {
  const step = stepOf(i);
  const { name } = step;
  const server = { name, text: step.text, folder: '/', addedAt: 1, changedAt: i };
  const revision = (await store.read()).servers.get(name)?.revision ?? 0;
  const applied =
    step.kind === 'add'
      ? await store.put(server, null)
      : step.kind === 'change'
        ? await store.put(server, revision)
        : step.kind === 'remove'
          ? await store.remove(name, revision)
          : await store.suspend(name, i);
  if (!applied.ok) throw new Error(`step ${i} was refused`);
  writeSync(1, `${i}\n`);
  if (restMs !== '0') await new Promise((done) => setTimeout(done, Number(restMs)));
}
await runTimeStore.close();
