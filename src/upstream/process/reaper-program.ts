/**
 * The reaper, a program of its own: one small process per node that outlives the gateway by a moment. Its standard
 * input is a pipe from the gateway with lines `+<process group>` and `-<process group>`. When the pipe ends, the gateway
 * is gone, be it by `kill -9`, and every group still registered is stopped. It imports nothing, so that it starts
 * fast and stays small, and ignores the signals that end a gateway.
 */

const TERMINATE_MS = 400;
const POLL_MS = 20;

const groups = new Set<number>();
let partial = '';

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => {});

process.stdin.setEncoding('latin1');
process.stdin.on('data', (text: string) => {
  const lines = (partial + text).split('\n');
  partial = lines.pop()!;
  for (const line of lines) {
    const group = Number(line.slice(1));
    if (!Number.isSafeInteger(group) || group <= 1) continue;
    if (line.startsWith('+')) groups.add(group);
    else groups.delete(group);
  }
});
process.stdin.once('end', reap);
process.stdin.once('error', reap);
process.stdout.on('error', () => {});
process.stdout.write('ready\n');

let reaping = false;

function reap(): void {
  if (reaping) return;
  reaping = true;
  signalAll('SIGTERM');
  signalAll('SIGCONT');
  const killAt = performance.now() + TERMINATE_MS;
  const poll = (): void => {
    for (const group of groups) if (!signal(group, 0)) groups.delete(group);
    if (groups.size > 0 && performance.now() < killAt) {
      setTimeout(poll, POLL_MS);
      return;
    }
    signalAll('SIGKILL');
    process.exit(0);
  };
  poll();
}

function signalAll(name: NodeJS.Signals): void {
  for (const group of groups) signal(group, name);
}

function signal(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, name);
    return true;
  } catch {
    return false;
  }
}
