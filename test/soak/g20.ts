import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpSocket } from '../../bench/load/http-socket.ts';
import type { Job } from '../../bench/load/job.ts';
import { Messages } from '../../bench/load/messages.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const UPSTREAM = resolve(import.meta.dirname, '../../bench/upstream/http.ts');
const BASE_CLIENTS = 64;
const OVERLOAD = 4;
/** Refused clients are asked to wait for a second. These wait less, but leave this process time to measure. */
const BACK_AFTER_MS = 50;
const LASTS_MS = 3_000;
const MEASURE_MS = 15_000;

interface Measured {
  readonly acceptedMs: number[];
  readonly refusedMs: number[];
  readonly other: number;
}

/**
 * Clients that call again as soon as they are answered measure the capacity of the gateway; then four times as many of
 * them do the same. Refused clients call again much sooner than they were asked to.
 */
async function run({ say }: Run): Promise<Outcome> {
  const gateway = new ProbedGateway();
  const upstream = spawn(process.execPath, [UPSTREAM, 'stateless', '2'], { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    const port = await new Promise<string>((done) => upstream.stdout.once('data', (text) => done(String(text).trim())));
    const url = `http://127.0.0.1:${/\d+/.exec(port)![0]}/mcp`;
    await gateway.start({ one: { type: 'http', url } }, { log: { level: 'warn' } });
    await load(gateway.url, BASE_CLIENTS, 5_000);
    await gateway.probe();
    const base = await load(gateway.url, BASE_CLIENTS, MEASURE_MS);
    const calm = await gateway.probe();
    const calls = (1_000 * base.acceptedMs.length) / MEASURE_MS;
    say(`capacity ${Math.round(calls)} calls/s`);
    await sleep(1_000);
    // A burst is not measured: overload is a load that lasts.
    await load(gateway.url, BASE_CLIENTS * OVERLOAD, LASTS_MS);
    await gateway.probe();
    const over = await load(gateway.url, BASE_CLIENTS * OVERLOAD, MEASURE_MS);
    const busy = await gateway.probe();
    return {
      figures: [
        figure('clients, then in overload', BASE_CLIENTS * OVERLOAD, ''),
        figure('calls at capacity', calls, '/s'),
        figure('calls accepted in overload', (1_000 * over.acceptedMs.length) / MEASURE_MS, '/s'),
        figure('calls refused in overload', (1_000 * over.refusedMs.length) / MEASURE_MS, '/s'),
        figure('event-loop delay at capacity, p99.9', calm.delayP999Ms, 'ms'),
        figure('event-loop delay in overload, p99', busy.delayP99Ms, 'ms'),
        figure('event-loop delay in overload, p99.9', busy.delayP999Ms, 'ms', 50),
        figure('event-loop delay in overload, longest', busy.delayMaxMs, 'ms'),
        figure('refusal, p50', percentile(over.refusedMs, 50), 'ms'),
        figure('refusal, p99', percentile(over.refusedMs, 99), 'ms', 20),
        figure('accepted call at capacity, p50', percentile(base.acceptedMs, 50), 'ms'),
        figure('accepted call at capacity, p99', percentile(base.acceptedMs, 99), 'ms'),
        figure('accepted call in overload, p50', percentile(over.acceptedMs, 50), 'ms'),
        figure('accepted call in overload, p99', percentile(over.acceptedMs, 99), 'ms'),
        figure(
          'p99 in overload over p99 at capacity',
          percentile(over.acceptedMs, 99) / percentile(base.acceptedMs, 99),
          '×',
          2,
        ),
        figure('neither answered nor refused', base.other + over.other, '', 0),
      ],
      broken: [],
    };
  } finally {
    upstream.kill('SIGKILL');
    await gateway.bench.dispose();
  }
}

async function load(url: URL, clients: number, forMs: number): Promise<Measured> {
  const measured: Measured & { other: number } = { acceptedMs: [], refusedMs: [], other: 0 };
  const messages = new Messages({ url: url.href, era: 'stateless', tool: 'echo', toolPrefix: 'one__' } as Job);
  const end = performance.now() + forMs;
  let id = 0;
  const one = (): Promise<void> =>
    new Promise((done) => {
      const socket = new HttpSocket(url);
      const again = (): void => {
        const before = performance.now();
        if (before > end) {
          socket.close();
          done();
          return;
        }
        socket.send(messages.call(++id, 'hello'), ({ status }, problem) => {
          const took = performance.now() - before;
          if (problem === '' && status === 200) measured.acceptedMs.push(took);
          else if (problem === '' && (status === 503 || status === 429)) {
            measured.refusedMs.push(took);
            setTimeout(again, BACK_AFTER_MS);
            return;
          } else measured.other++;
          again();
        });
      };
      again();
    });
  await Promise.all(Array.from({ length: clients }, one));
  return measured;
}

export const G20: Proof = {
  id: 'G20',
  group: 'soak',
  claim:
    'Under 4 × overload the event-loop delay is ≤ 50 ms at p99.9, excess calls get 429 or 503 within 20 ms, and p99 of accepted calls is ≤ 2 × that at capacity',
  shortened: null,
  run,
};
