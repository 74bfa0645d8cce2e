import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { claudeProject } from '../config/files/find-config.ts';
import type { LoadOptions } from '../config/load-config.ts';
import { DataFolder, defaultDataDir, type Instance } from '../store/data-folder.ts';

export type { DataFolder as GatewayFolder } from '../store/data-folder.ts';

type Environment = LoadOptions['env'];

/** What a gateway serves, as far as it says which gateway it is. */
export type Served = Pick<LoadOptions, 'files' | 'serves' | 'cwd' | 'env'>;

/**
 * Which gateway serves these files: the same for each path that leads there, another in each git worktree. null for the user's
 * default gateway, which has no file. A file of Claude Code counts for each project folder apart.
 */
export function placeOf({ files = [], serves = files, cwd }: Omit<Served, 'env'>): string | null {
  const places = serves.map((name) => {
    const file = resolve(cwd, name);
    return [realPlace(file), claudeProject(file, cwd)].filter((part) => part !== null).join('#');
  });
  return places.length === 0 ? null : places.sort().join('\n');
}

/** The file itself may be a link to one that several projects share: each has its own gateway. */
function realPlace(file: string): string {
  try {
    return join(realpathSync(dirname(file)), basename(file));
  } catch {
    return file;
  }
}

/**
 * The data folder of a gateway: the one that is named, or one of each file in `gateways` of the user's folder. The user's
 * folder itself is the default gateway's; one that earlier versions used goes on to serve the file it served, or, where that is
 * not known, the first file that a gateway starts with (decision 073).
 */
export function gatewayFolder(dataDir: string | null | undefined, served: Served): DataFolder {
  if (dataDir != null) return new DataFolder(resolve(dataDir));
  const place = placeOf(served);
  const root = new DataFolder(defaultDataDir(served.env));
  const own = new DataFolder(root.file(join('gateways', nameOf(place))), { place, within: root });
  if (existsSync(own.file(SERVES))) return own;
  const isOld = existsSync(root.file('lock.db')) || existsSync(root.file('truth.db'));
  const owner = ownerOf(root);
  // A gateway without a file leaves an old folder to the first that has one.
  if (owner === undefined && place === null && isOld) return root;
  const isRoot = owner === place || (owner === undefined && (place === null || isOld));
  return isRoot ? new DataFolder(root.path, { place, within: null }) : own;
}

const SERVES = 'serves.json';

/** Which gateway the user's folder is of; undefined where that was not decided yet. */
function ownerOf(root: DataFolder): string | null | undefined {
  const decided = readJson<{ place: string | null }>(root.file(SERVES));
  if (decided !== null) return decided.place;
  // Of a version that did not decide: one that runs, or was killed.
  const instance = readJson<Instance>(root.file('instance.json'));
  return instance === null ? undefined : placeOf({ cwd: '/', ...instance });
}

/** Readable, for who looks into the folder, and unique. */
function nameOf(place: string | null): string {
  if (place === null) return 'default';
  const project = basename(dirname(place)).replaceAll(/[^\w.-]/g, '_');
  return `${project.slice(0, 32)}-${createHash('sha256').update(place).digest('hex').slice(0, 12)}`;
}

function readJson<T>(file: string): T | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T;
  } catch {
    return null;
  }
}

/** Data folders of this user's gateways: all that are not named, and those named ones whose gateway runs. */
export function knownFolders(env: Environment): readonly DataFolder[] {
  const root = new DataFolder(defaultDataDir(env));
  const own = namesIn(root.file('gateways')).map((name) => root.file(join('gateways', name)));
  const elsewhere = namesIn(root.file('elsewhere')).map((name) => readText(root.file(join('elsewhere', name))));
  return [root.path, ...own, ...elsewhere].filter((path) => path !== '').map((path) => new DataFolder(path));
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}

/** Lets commands find the gateway of a data folder that has a place of its own. The returned function ends that. */
export function announceFolder(path: string, env: Environment): () => void {
  const root = defaultDataDir(env);
  if (path === root || dirname(path) === join(root, 'gateways')) return () => {};
  const file = join(root, 'elsewhere', createHash('sha256').update(path).digest('hex').slice(0, 16));
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, `${path}\n`, { mode: 0o600 });
  } catch {
    // Its commands need --data-dir then.
  }
  return () => rmSync(file, { force: true });
}

/** Where a gateway listens that was not told where. */
export interface UsualPorts {
  readonly port: number;
  readonly controlPort: number;
}

export const FIRST_PORTS: UsualPorts = { port: 4270, controlPort: 4271 };
const PORTS = 'ports.json';
const MOST = 100;

/**
 * The ports of the gateway of this folder: those it had before, for clients that were linked to them, else the first pair that
 * no other gateway of the user has, running or not. `isFree` says whether they can be had; where the ones it had cannot, the
 * next are taken for this time.
 */
export async function usualPorts(
  folder: DataFolder,
  env: Environment,
  isFree: (ports: UsualPorts) => Promise<boolean>,
): Promise<UsualPorts> {
  const had = portsOf(folder, env);
  if (had !== null && (await isFree(had))) return had;
  const others = knownFolders(env).filter(({ path }) => path !== folder.path);
  const taken = new Set(others.flatMap((other) => portsOf(other, env)?.port ?? []));
  for (let port = FIRST_PORTS.port; port < FIRST_PORTS.port + 2 * MOST; port += 2) {
    const ports = { port, controlPort: port + 1 };
    if (!taken.has(port) && (await isFree(ports))) return ports;
  }
  return had ?? FIRST_PORTS;
}

/** null where it never listened. The user's folder of earlier versions had the first. */
export function portsOf(folder: DataFolder, env: Environment): UsualPorts | null {
  const kept = readJson<UsualPorts>(folder.file(PORTS));
  if (kept !== null) return kept;
  const isOld = folder.path === defaultDataDir(env) && existsSync(folder.file('lock.db'));
  return isOld && !existsSync(folder.file(SERVES)) ? FIRST_PORTS : null;
}

/** Once: the ones that it had first are those that clients know. */
export function rememberPorts(folder: DataFolder, ports: UsualPorts): void {
  try {
    folder.prepare();
    writeFileSync(folder.file(PORTS), JSON.stringify(ports), { mode: 0o600, flag: 'wx' });
  } catch {
    // It has some already, or cannot keep any.
  }
}
