/** Puts what tsc made of the modules together in a few files: to find and load four hundred takes half of a start. */
import { globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { rolldown } from 'rolldown';

/** Two levels deep like the modules they are made of, which find `package.json` and `schema/` from where they are. */
const PARTS = 'parts';

/**
 * Leaves in the folder the four ways in, the parts they share or load when needed, and the declarations. Packages stay
 * imports. The reaper's program is started by its path, next to the part that starts it.
 */
export async function bundle(dist: string): Promise<void> {
  const build = await rolldown({
    input: {
      main: join(dist, 'main.js'),
      index: join(dist, 'index.js'),
      client: join(dist, 'client.js'),
      compat: join(dist, 'compat/index.js'),
      [`${PARTS}/reaper-program`]: join(dist, 'upstream/process/reaper-program.js'),
    },
    external: (id) => !id.startsWith('.') && !isAbsolute(id),
    platform: 'node',
  });
  const { output } = await build.generate({
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: `${PARTS}/[name].js`,
  });
  await build.close();
  for (const file of globSync('**/*.js', { cwd: dist })) rmSync(join(dist, file));
  for (const file of output) {
    const path = join(dist, file.fileName);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, file.type === 'chunk' ? file.code : file.source);
  }
}
