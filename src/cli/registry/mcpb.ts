import { existsSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, open, readdir, rename, rm, rmdir, utimes } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { guardedDownload } from '../../http/client/guarded-fetch.ts';
import { Resolver } from '../../http/client/resolver.ts';
import type { Package } from '../../mcp-registry/server-json.ts';
import { serverNameOf } from '../../model/names.ts';
import { dataFolderOf } from '../access/find-running.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, EXIT, usage } from '../exit-code.ts';
import { Inputs, type NewServer } from './inputs.ts';
import { BundleArchive, MAX_ARCHIVE_BYTES } from './mcpb-archive.ts';
import { bundleDefinition, manifestOf } from './mcpb-manifest.ts';

/** Long enough to be unique among bundles, and short enough not to look like a secret. */
const HASH_LETTERS = 16;
const SCRATCH = '.new-';
const LEFT_MS = 3_600_000;

interface ListedBundle extends Package {
  /** The registry that the package is listed in. */
  readonly registry: string;
}

/**
 * The server of an MCPB bundle, which is a file or a package of a registry. Unpacks it into a folder of the data folder, named by
 * server and content, which a rename creates at once. `name`: null for the bundle's own name.
 */
export async function bundleServer(
  input: CommandInput,
  from: string | ListedBundle,
  name: string | null,
  { set = [] }: { readonly set?: readonly string[] },
): Promise<NewServer> {
  const digest = typeof from === 'string' ? null : digestOf(from);
  const bundles = await bundlesOf(input);
  const scratch = await scratchIn(bundles);
  let archive: BundleArchive | null = null;
  try {
    const file = typeof from === 'string' ? fileAt(input, from) : join(scratch, 'bundle');
    if (typeof from !== 'string') await download(from, file);
    archive = await BundleArchive.open(file, digest);
    const manifest = manifestOf(await archive.text('manifest.json'));
    const server = name ?? serverNameOf(manifest.name);
    const given = new Inputs(input, server, set);
    const versions = join(bundles, server);
    const folder = join(versions, archive.digest.slice(0, HASH_LETTERS));
    const place = { folder, cwd: input.terminal.cwd, given, has: archive.has.bind(archive) };
    const added = given.build(await bundleDefinition(manifest, place));
    const runtimes = Object.entries(manifest.compatibility?.runtimes ?? {}).map((one) => one.join(' '));
    if (runtimes.length > 0) input.terminal.err(`it needs ${runtimes.join(', ')}\n`);
    const isThere = existsSync(folder);
    if (isThere) await utimes(folder, new Date(), new Date());
    else {
      await archive.extract(join(scratch, 'content'), manifest.server.entry_point);
      await mkdir(versions, { recursive: true, mode: 0o700 });
      await rename(join(scratch, 'content'), folder);
    }
    await removeOld(bundles, versions, folder);
    if (isThere) return added;
    const discard = async (): Promise<void> => {
      await rm(folder, { recursive: true, force: true });
      await added.discard();
    };
    return { ...added, discard };
  } finally {
    await archive?.close();
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Runs after the removal of server `name`. `others`: definitions of the other servers, which may use the same files. */
export async function removeBundle(input: CommandInput, name: string, others: string): Promise<void> {
  const versions = join(await bundlesOf(input), name);
  for (const hash of await namesIn(versions)) {
    const folder = join(versions, hash);
    if (others.includes(JSON.stringify(folder).slice(1, -1))) continue;
    await rm(folder, { recursive: true, force: true }).catch((error: Error) => {
      input.terminal.err(`${folder} is left: ${error.message}\n`);
    });
  }
  await rmdir(versions).catch(() => {});
}

/** Removes old versions of the bundle but keeps the one before the new one: it may run until it is replaced. */
async function removeOld(bundles: string, versions: string, folder: string): Promise<void> {
  // Another `add` may remove its scratch folder between the listing and this.
  const aged = (paths: readonly string[]) =>
    paths.map((path) => ({ path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }));
  const others = (await namesIn(versions)).map((name) => join(versions, name)).filter((path) => path !== folder);
  const before = aged(others)
    .sort((a, b) => b.at - a.at)
    .slice(1);
  const scratches = (await namesIn(bundles))
    .filter((name) => name.startsWith(SCRATCH))
    .map((name) => join(bundles, name));
  const left = aged(scratches).filter(({ at }) => at < Date.now() - LEFT_MS);
  for (const { path } of [...before, ...left]) await rm(path, { recursive: true, force: true });
}

async function scratchIn(bundles: string): Promise<string> {
  try {
    await mkdir(bundles, { recursive: true, mode: 0o700 });
    return await mkdtemp(join(bundles, SCRATCH));
  } catch (cause) {
    throw usage(`the bundle cannot be unpacked: ${(cause as Error).message}`, { cause });
  }
}

async function bundlesOf(input: CommandInput): Promise<string> {
  return join(await dataFolderOf({ ...input, serverCommand: [] }), 'bundles');
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}

function fileAt({ terminal }: CommandInput, path: string): string {
  if (/^https?:\/\//i.test(path)) throw usage(`download the bundle first, then: trunkline add ./${basename(path)}`);
  const file = resolve(terminal.cwd, path);
  if (!existsSync(file)) throw usage(`there is no file ${file}`);
  return file;
}

function digestOf({ identifier, fileSha256 = '' }: Package): string {
  if (/^[0-9a-f]{64}$/i.test(fileSha256)) return fileSha256.toLowerCase();
  throw usage(`the registry gives no SHA-256 (fileSha256) for ${identifier}, without which a bundle is not taken`);
}

/** The host of the registry may be on this machine or its network, since the user named it; other hosts may not. */
async function download({ identifier, registry }: ListedBundle, file: string): Promise<void> {
  const hosts = /^https?:/.test(registry) ? [new URL(registry).host] : [];
  const handle = await open(file, 'wx', 0o600);
  try {
    for await (const chunk of guardedDownload(new Resolver(), identifier, hosts, MAX_ARCHIVE_BYTES)) {
      await handle.writeFile(chunk);
    }
  } catch (cause) {
    throw new CommandError(EXIT.unreachable, `${identifier} cannot be downloaded: ${(cause as Error).message}`, {
      cause,
    });
  } finally {
    await handle.close();
  }
}
