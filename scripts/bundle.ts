/** Bundles the modules that tsc compiled into a few files: finding and loading four hundred takes half of a start. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { rolldown } from 'rolldown';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';

/** The parts are two levels deep like the modules in them, which find `package.json` and `schema/` by relative paths. */
const PARTS = 'parts';
const TYPES = 'types';
/** Small modules that every command needs, in one part instead of five. */
const TOGETHER = [
  { name: 'basics', test: /dist\/(?:cli\/(?:exit-code|command-input|flags)|model\/printable|app\/version)\.js$/ },
];
const ENTRIES = { index: 'index', client: 'client', compat: 'compat/index' };

/**
 * Leaves in the folder the four entry points, the parts they share or load when needed, and a declaration file for each of the
 * three that programs import. Packages stay imports. The reaper's program is started by its path, next to the part that
 * starts it.
 */
export async function bundle(dist: string): Promise<void> {
  const files = [...(await programs(dist)), ...(await declarations(dist))];
  rmSync(dist, { recursive: true });
  for (const [name, text] of files) {
    const path = join(dist, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}

type BundledFile = readonly [name: string, text: string | Uint8Array];

async function programs(dist: string): Promise<BundledFile[]> {
  const build = await rolldown({
    input: {
      main: join(dist, 'main.js'),
      ...entriesWith(dist, '.js'),
      [`${PARTS}/reaper-program`]: join(dist, 'upstream/process/reaper-program.js'),
    },
    external: isPackage,
    platform: 'node',
  });
  const { output } = await build.generate({
    format: 'esm',
    comments: false,
    entryFileNames: '[name].js',
    chunkFileNames: `${PARTS}/[name].js`,
    codeSplitting: { groups: TOGETHER },
  });
  await build.close();
  return output.map((file) => [file.fileName, file.type === 'chunk' ? file.code : file.source]);
}

/** A class that two entries use is in a file of its own: with two declarations it would be two types. */
async function declarations(dist: string): Promise<BundledFile[]> {
  const build = await rollup({ input: entriesWith(dist, '.d.ts'), external: isPackage, plugins: [dts()] });
  const { output } = await build.generate({
    format: 'esm',
    entryFileNames: '[name].d.ts',
    chunkFileNames: ({ name }) => `${TYPES}/${name.replace(/\.d$/, '')}.d.ts`,
  });
  await build.close();
  return output.map((file) => [file.fileName, file.type === 'chunk' ? file.code : file.source]);
}

function entriesWith(dist: string, extension: string): Record<string, string> {
  return Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, join(dist, path + extension)]));
}

function isPackage(id: string): boolean {
  return !id.startsWith('.') && !isAbsolute(id);
}
