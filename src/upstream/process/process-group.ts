import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Signals every process of a group; 0 only tests. False if there is no such group or it is not ours to signal. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  // -1 would signal every process of this user, 0 the gateway's own group.
  if (!Number.isSafeInteger(group) || group <= 1) throw new RangeError(`not a process group: ${group}`);
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}

/** SIGTERM, then SIGCONT, because a stopped process would not handle the SIGTERM. */
export function terminateGroup(group: number): void {
  signalGroup(group, 'SIGTERM');
  signalGroup(group, 'SIGCONT');
}

/**
 * Whether a group still has a living process. Zombies do not count: under an init that does not reap, as in many containers, a
 * dead grandchild would keep its group forever.
 */
export function groupAlive(group: number): boolean {
  return signalGroup(group, 0) && !(process.platform === 'linux' && onlyZombies(group));
}

function onlyZombies(group: number): boolean {
  for (const entry of readdirSync('/proc')) {
    if (entry.charCodeAt(0) > 0x39) continue;
    const stat = statOf(Number(entry));
    if (stat !== null && stat.group === group && stat.state !== 'Z' && stat.state !== 'X') return false;
  }
  return true;
}

interface ProcessStat {
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  /** CPU time, user and kernel, in clock ticks. */
  readonly ticks: number;
  /** Clock ticks since boot; with the pid it identifies a process until the next boot. */
  readonly startTime: string;
}

/** Linux only; null if the process or `/proc` does not exist. */
export function statOf(pid: number): ProcessStat | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return null;
  }
  // The name in parentheses may contain anything, so fields are counted after its closing one: state is the third field.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, parent, group] = fields as [string, string, string];
  const ticks = Number(fields[11]) + Number(fields[12]);
  return { state, parent: Number(parent), group: Number(group), ticks, startTime: fields[19]! };
}

/** Identifies a process; a later one with the same pid differs. */
interface Identity {
  readonly pid: number;
  /** Start time in ticks since boot and the boot id; null without `/proc`. */
  readonly started: string | null;
}

interface RecordFile {
  readonly gateway: Identity;
  readonly groups: readonly Identity[];
}

const TERMINATE_MS = 1000;
const POLL_MS = 20;

/**
 * The process groups that this gateway has started, in a file of the data folder: the next instance sweeps them if neither the
 * gateway nor its reaper could stop them. Each change rewrites the file, which is short.
 */
export class ProcessRecord {
  readonly #file: string;
  readonly #gateway = identify(process.pid);
  readonly #groups = new Map<number, Identity>();

  constructor(file: string) {
    this.#file = file;
  }

  add(group: number): void {
    this.#groups.set(group, identify(group));
    this.#write();
  }

  remove(group: number): void {
    if (this.#groups.delete(group)) this.#write();
  }

  close(): void {
    rmSync(this.#file, { force: true });
  }

  #write(): void {
    const content: RecordFile = { gateway: this.#gateway, groups: [...this.#groups.values()] };
    try {
      writeFileSync(`${this.#file}.new`, JSON.stringify(content), { mode: 0o600 });
      renameSync(`${this.#file}.new`, this.#file);
    } catch {
      // A full disk must not prevent a start; the reaper still guards the group.
    }
  }
}

/**
 * Stops process groups that a dead instance left. Touches only groups whose leader is the recorded process (same pid, same
 * start time), and nothing while the recording gateway lives. Returns the groups that it stopped.
 */
export async function sweep(recordFile: string, terminateMs = TERMINATE_MS): Promise<number[]> {
  const record = read(recordFile);
  if (record === null || (isAlive(record.gateway) && statOf(record.gateway.pid)?.state !== 'Z')) return [];
  const groups = record.groups.filter(isAlive).map(({ pid }) => pid);
  groups.forEach(terminateGroup);
  const killAt = performance.now() + terminateMs;
  while (groups.some(groupAlive) && performance.now() < killAt) await sleep(POLL_MS);
  for (const group of groups) if (groupAlive(group)) signalGroup(group, 'SIGKILL');
  rmSync(recordFile, { force: true });
  return groups;
}

function identify(pid: number): Identity {
  const stat = statOf(pid);
  return { pid, started: stat === null ? null : `${stat.startTime}@${bootId()}` };
}

function isAlive(identity: Identity): boolean {
  return identity.started !== null && identify(identity.pid).started === identity.started;
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    return '';
  }
}

/** Null if the file does not exist or is invalid: then nothing is stopped. */
function read(file: string): RecordFile | null {
  try {
    const { gateway, groups }: { readonly gateway: unknown; readonly groups: unknown } = JSON.parse(
      readFileSync(file, 'utf8'),
    );
    return isIdentity(gateway) && Array.isArray(groups) ? { gateway, groups: groups.filter(isIdentity) } : null;
  } catch {
    return null;
  }
}

function isIdentity(value: unknown): value is Identity {
  const { pid, started } = (value ?? {}) as Partial<Record<keyof Identity, unknown>>;
  return Number.isSafeInteger(pid) && Number(pid) > 1 && (started === null || typeof started === 'string');
}
