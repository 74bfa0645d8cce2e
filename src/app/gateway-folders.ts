import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fromHome } from '../config/document/from-home.ts';
import { claudeProject } from '../config/files/find-config.ts';
import type { LoadOptions } from '../config/load-config.ts';
import { DataFolder, defaultDataDir, type Instance } from '../store/data-folder.ts';

export type { DataFolder } from '../store/data-folder.ts';

type Environment = LoadOptions['env'];

/** The options that identify a gateway. */
export type GatewaySelector = Pick<LoadOptions, 'files' | 'serves' | 'cwd' | 'env'>;

/**
 * Returns the identity of the gateway for these files: the same for every path to them, another one in each git worktree. null
 * for the user's default gateway, which has no file. For a file of Claude Code, each project folder has its own gateway.
 */
export function gatewayIdentity({ files = [], serves = files, cwd }: Omit<GatewaySelector, 'env'>): string | null {
  const places = serves.map((name) => {
    const file = resolve(cwd, name);
    return [realPlace(file), claudeProject(file, cwd)].filter((part) => part !== null).join('#');
  });
  return places.length === 0 ? null : places.sort().join('\n');
}

/** Does not resolve a link at the file itself: projects that link to one file have their own gateways. */
function realPlace(file: string): string {
  try {
    return join(realpathSync(dirname(file)), basename(file));
  } catch {
    return file;
  }
}

/**
 * Returns the data folder of a gateway: the named one, or one for its files in `gateways` of the user's folder. The user's
 * folder itself belongs to the default gateway. If an earlier version used it, it stays with the file that it served or, if
 * that is unknown, with the first file with which a gateway starts (decision 073).
 */
export function gatewayFolder(dataDir: string | null | undefined, served: GatewaySelector): DataFolder {
  if (dataDir != null) return new DataFolder(resolve(fromHome(dataDir, served.env)));
  const place = gatewayIdentity(served);
  const root = new DataFolder(defaultDataDir(served.env));
  const own = new DataFolder(root.file(join('gateways', nameOf(place))), { place, within: root });
  if (existsSync(own.file(SERVES))) return own;
  const isOld = existsSync(root.file('lock.db')) || existsSync(root.file('truth.db'));
  const owner = ownerOf(root);
  // A gateway without a file does not claim an old folder, so that the first one with a file can.
  if (owner === undefined && place === null && isOld) return root;
  const isRoot = owner === place || (owner === undefined && (place === null || isOld));
  return isRoot ? new DataFolder(root.path, { place, within: null }) : own;
}

const SERVES = 'serves.json';

/** Returns the identity of the gateway that has the user's folder; undefined if none has claimed it. */
function ownerOf(root: DataFolder): string | null | undefined {
  const decided = readJson<{ place: string | null }>(root.file(SERVES));
  if (decided !== null) return decided.place;
  // An earlier version claimed nothing; this is its gateway that runs or was killed.
  const instance = readJson<Instance>(root.file('instance.json'));
  return instance === null ? undefined : gatewayIdentity({ cwd: '/', ...instance });
}

/** Returns a readable and unique name. */
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

/** Returns the data folders of this user's gateways: all unnamed ones, and the named ones that are announced. */
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

/** Announces a named data folder, so that commands find its gateway. The returned function withdraws that. */
export function announceFolder(path: string, env: Environment): () => void {
  const root = defaultDataDir(env);
  if (path === root || dirname(path) === join(root, 'gateways')) return () => {};
  const file = join(root, 'elsewhere', createHash('sha256').update(path).digest('hex').slice(0, 16));
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, `${path}\n`, { mode: 0o600 });
  } catch {
    // Commands then need --data-dir.
  }
  return () => rmSync(file, { force: true });
}

/** The ports of a gateway whose configuration names none. */
export interface UsualPorts {
  readonly port: number;
  readonly controlPort: number;
}

export const FIRST_PORTS: UsualPorts = { port: 4270, controlPort: 4271 };
const PORTS = 'ports.json';
const MOST = 100;

/**
 * Returns the ports for the gateway of this folder: its earlier ones, which linked clients use, else the first free pair that
 * no other gateway of the user has, running or not. If its earlier ports are in use, it gets the next pair for this time.
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

/** Returns null if the gateway never listened. In earlier versions the user's folder had the first ports. */
export function portsOf(folder: DataFolder, env: Environment): UsualPorts | null {
  const kept = readJson<UsualPorts>(folder.file(PORTS));
  if (kept !== null) return kept;
  const isOld = folder.path === defaultDataDir(env) && existsSync(folder.file('lock.db'));
  return isOld && !existsSync(folder.file(SERVES)) ? FIRST_PORTS : null;
}

/** Stores only the first ports of a gateway, because clients are linked to those. */
export function rememberPorts(folder: DataFolder, ports: UsualPorts): void {
  try {
    folder.prepare();
    folder.writeOnce(PORTS, ports);
  } catch {
    // They cannot be stored.
  }
}
