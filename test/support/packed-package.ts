import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { buildConsole } from '../../scripts/build-console.ts';
import { bundle } from '../../scripts/bundle.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

export const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly version: string;
  readonly files: readonly string[];
  readonly dependencies: Readonly<Record<string, string>>;
};

/** The tarball of what is published, built from the sources in this folder; needs no network. */
export async function packPackage(folder: string): Promise<string> {
  const staging = join(folder, 'staging');
  const dist = join(staging, 'dist');
  for (const name of ['package.json', 'README.md', 'schema', ...manifest.files]) {
    if (name !== 'dist' && existsSync(join(ROOT, name)))
      cpSync(join(ROOT, name), join(staging, name), { recursive: true });
  }
  mkdirSync(dist, { recursive: true });
  await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json', '--outDir', dist], { cwd: ROOT });
  await bundle(dist);
  await buildConsole(join(dist, 'ui'));
  const npm = ['pack', '--offline', '--ignore-scripts', '--json', '--pack-destination', folder];
  const env = { ...process.env, npm_config_cache: join(folder, 'npm') };
  const { stdout } = await run('npm', npm, { cwd: staging, env });
  return join(folder, (JSON.parse(stdout) as readonly { readonly filename: string }[])[0]!.filename);
}
