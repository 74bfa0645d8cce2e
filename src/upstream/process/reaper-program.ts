/**
 * The reaper, a separate program: one small process per node that outlives the gateway by a moment. When the pipe from the
 * gateway on its standard input ends, the gateway is gone, even after `kill -9`, and the reaper stops every process group that
 * is still registered. It imports almost nothing, to start fast and stay small, and ignores the signals that end a gateway.
 *
 * Input lines:
 *   ?<mark>    a process with TRUNKLINE_SPAWN=<mark> in its environment is about to be started
 *   +<group>   it was started and leads this group
 *   ?          it could not be started
 *   -<group>   no process of the group is left
 */
import { readdirSync, readFileSync } from 'node:fs';

const TERMINATE_MS = 400;
const POLL_MS = 20;

const groups = new Set<number>();
/** The mark of an announced start whose result is unknown; empty for none. */
let announced = '';
let partial = '';
let reaping = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => {});

process.stdin.setEncoding('latin1');
process.stdin.on('data', (text: string) => {
  const lines = (partial + text).split('\n');
  partial = lines.pop()!;
  for (const line of lines) take(line[0], line.slice(1));
});
process.stdin.once('end', reap);
process.stdin.once('error', reap);
process.stdout.on('error', () => {});
process.stdout.write('ready\n');

function take(kind: string | undefined, rest: string): void {
  if (kind === '?') {
    announced = rest;
    return;
  }
  const group = Number(rest);
  if (!Number.isSafeInteger(group) || group <= 1) return;
  if (kind === '+') {
    groups.add(group);
    announced = '';
  } else if (kind === '-') groups.delete(group);
}

function reap(): void {
  if (reaping) return;
  reaping = true;
  for (const group of groups) terminate(group);
  const killAt = performance.now() + TERMINATE_MS;
  const poll = (): void => {
    for (const group of groups) if (!signal(group, 0)) groups.delete(group);
    // An announced process may not have its mark in its environment yet: searched for until the end.
    if (announced !== '') findAnnounced();
    if ((groups.size > 0 || announced !== '') && performance.now() < killAt) {
      setTimeout(poll, POLL_MS);
      return;
    }
    for (const group of groups) signal(group, 'SIGKILL');
    process.exit(0);
  };
  poll();
}

/** Linux only: on other systems the environment of another process cannot be read. */
function findAnnounced(): void {
  const wanted = `TRUNKLINE_SPAWN=${announced}\0`;
  let entries: string[] = [];
  try {
    entries = readdirSync('/proc');
  } catch {
    announced = '';
  }
  for (const entry of entries) {
    const pid = Number(entry);
    if (!Number.isSafeInteger(pid) || groups.has(pid)) continue;
    try {
      if (!`${readFileSync(`/proc/${pid}/environ`, 'latin1')}\0`.includes(wanted)) continue;
    } catch {
      continue;
    }
    // The started process leads a group; its children belong to that group.
    if (!signal(pid, 0)) continue;
    groups.add(pid);
    terminate(pid);
  }
}

function terminate(group: number): void {
  signal(group, 'SIGTERM');
  // A stopped process would not handle the SIGTERM.
  signal(group, 'SIGCONT');
}

function signal(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, name);
    return true;
  } catch {
    return false;
  }
}
