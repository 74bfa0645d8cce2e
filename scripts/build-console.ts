import { join } from 'node:path';
import { build } from 'vite';

const ROOT = join(import.meta.dirname, '../ui');

/**
 * Writes the console to this folder: its page, and assets whose names have a digest. All addresses are relative to the page.
 * `emptyOutDir` false keeps older assets, for pages that are open.
 */
export async function buildConsole(outDir: string, emptyOutDir = true): Promise<void> {
  await build({
    root: ROOT,
    base: './',
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      outDir,
      emptyOutDir,
      target: 'es2022',
      // Assets inlined as data: URLs would need a wider Content-Security-Policy.
      assetsInlineLimit: 0,
      // A style sheet of one page would stay loaded, and change the pages that are opened after it.
      cssCodeSplit: false,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  });
}
