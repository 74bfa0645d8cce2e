import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';

/** Outlives the checkout: building and installing the programs of the tests takes minutes of processor time. */
const CACHE = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'trunkline-tests');
const WAIT_MS = 480_000;
const MAKE_MS = 420_000;
const SQLITE_BUSY = 5;
const OLDEST_GO = 1.25;
const run = promisify(execFile);

/** Written when `make` failed, for the processes that waited for it. */
interface Failure {
  readonly at: number;
  readonly why: string;
}

/**
 * The folder of that name in the cache. If there is none, `make` fills a scratch folder, which then becomes it: a folder is
 * complete or absent. Other callers wait meanwhile, and fail as well if `make` does. Rejects with what `make` throws.
 */
export async function madeOnce(name: string, make: (scratch: string) => Promise<unknown>): Promise<string> {
  const folder = join(CACHE, name);
  const failed = `${folder}.failed`;
  const since = Date.now();
  mkdirSync(CACHE, { recursive: true });
  // A lock that ends with its process.
  using lock = new DatabaseSync(join(CACHE, `${name}.lock`), { timeout: 0 });
  for (const end = performance.now() + WAIT_MS; !existsSync(folder); await setTimeout(200)) {
    try {
      lock.exec('BEGIN EXCLUSIVE');
    } catch (error) {
      if ((error as { errcode?: number }).errcode !== SQLITE_BUSY || performance.now() > end) throw error;
      continue;
    }
    if (existsSync(folder)) break;
    const failure = existsSync(failed) ? (JSON.parse(readFileSync(failed, 'utf8')) as Failure) : null;
    if (failure !== null && failure.at >= since) throw new Error(`${name} was not made: ${failure.why}`);
    // Left by a process that was killed.
    for (const left of globSync(`${folder}-??????`)) rmSync(left, { recursive: true, force: true });
    const scratch = mkdtempSync(`${folder}-`);
    try {
      await make(scratch);
      renameSync(scratch, folder);
      rmSync(failed, { force: true });
    } catch (error) {
      writeFileSync(failed, JSON.stringify({ at: Date.now(), why: String(error) } satisfies Failure));
      throw error;
    } finally {
      rmSync(scratch, { recursive: true, force: true });
    }
  }
  return folder;
}

/** Runs `go` with these arguments; rejects if Go is missing or too old. */
export function goRun(
  args: readonly string[],
  options: { readonly cwd?: string; readonly env: Readonly<Record<string, string>> },
): Promise<unknown> {
  const version = execFileSync('go', ['version'], { encoding: 'utf8' });
  const go = Number.parseFloat(/go(\d+\.\d+)/.exec(version)?.[1] ?? '0');
  if (go < OLDEST_GO) throw new Error(`Go ${go} is too old`);
  return run('go', args, { ...options, env: { ...process.env, ...options.env }, timeout: MAKE_MS });
}

/** Builds the Go programs of a folder of this repository, again after each change of their sources. */
export function goPrograms(name: string, folder: string): Promise<string> {
  const args = (scratch: string) => ['build', '-ldflags', '-s -w', '-o', `${scratch}/`, './...'];
  return madeOnce(`${name}-${digestOf(folder)}`, (scratch) =>
    goRun(args(scratch), { cwd: folder, env: { CGO_ENABLED: '0' } }),
  );
}

export function pipInstalled(spec: string): Promise<string> {
  const options = ['--quiet', '--no-compile', '--disable-pip-version-check', '--target'];
  const version = execFileSync('python3', ['-c', 'import sys; print(*sys.version_info[:2], sep=".")'], {
    encoding: 'utf8',
  });
  return madeOnce(`pip-${spec.replace('==', '-')}-py${version.trim()}`, (scratch) =>
    run('python3', ['-m', 'pip', 'install', ...options, scratch, spec], { timeout: MAKE_MS }),
  );
}

function digestOf(folder: string): string {
  const hash = createHash('sha256');
  for (const path of globSync('**/*.{go,mod,sum}', { cwd: folder }).sort())
    hash.update(readFileSync(join(folder, path)));
  return hash.digest('hex').slice(0, 16);
}
