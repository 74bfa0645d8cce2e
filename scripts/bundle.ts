/** Puts what tsc made of the modules together in a few files: to find and load four hundred takes half of a start. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { rolldown } from 'rolldown';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';

/** Two levels deep like the modules they are made of, which find `package.json` and `schema/` from where they are. */
const PARTS = 'parts';
const TYPES = 'types';
/** Small modules that every command needs: one part and not five. */
const TOGETHER = [
  { name: 'basics', test: /dist\/(?:cli\/(?:exit-code|command-input|flags)|model\/printable|app\/version)\.js$/ },
];
const ENTRIES = { index: 'index', client: 'client', compat: 'compat/index' };

/**
 * Leaves in the folder the four ways in, the parts they share or load when needed, and a declaration file for each of the
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

/** Classes that two entries name stand in a file of their own: with two declarations they would be two types. */
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
