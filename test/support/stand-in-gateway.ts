/**
 * A gateway reduced to its processes, for tests that kill it: starts servers under a reaper, prints its pid, waits.
 * Arguments: number of servers, mark, record file (may be missing).
 */
import { systemClock } from '../../src/model/clock.ts';
import { ProcessRecord } from '../../src/upstream/process/process-group.ts';
import { Reaper } from '../../src/upstream/process/reaper.ts';
import { StdioTransport } from '../../src/upstream/transport/stdio-transport.ts';
import { MARK } from './processes.ts';
import { shellSpec } from './stdio-bench.ts';

const [count, mark, recordFile] = process.argv.slice(2);
const logger = { info: () => {}, warn: () => {}, publish: () => {}, redact: (text: string) => text };
const record = recordFile === undefined ? null : new ProcessRecord(recordFile);
const reaper = new Reaper({ logger, record });

for (let i = 0; i < Number(count); i++) {
  // Neither the end of its input nor SIGTERM ends it, and it has children of its own.
  const spec = shellSpec(`trap '' TERM; sleep 600 & while :; do sleep 600; done`, { env: { [MARK]: mark! } });
  const transport = new StdioTransport({
    server: `server-${i}`,
    spec,
    maxMessageBytes: 1024,
    guard: reaper,
    environment: process.env,
    clock: systemClock,
    logger,
  });
  await transport.open({ received: () => {}, lost: () => {}, closed: () => {} });
}

let reported = 0;
setInterval(() => {
  if (reaper.pid === null || reaper.pid === reported) return;
  reported = reaper.pid;
  void reaper.ready().then(() => process.stdout.write(`${reported}\n`));
}, 5);
