import { join } from 'node:path';
import { pipInstalled } from '../made-once.ts';

/** The folder of `uv` and `uvx`, installed once from PyPI; null when that cannot be done. */
export async function uvFolder(): Promise<string | null> {
  const folder = await pipInstalled('uv==0.13.9').catch(() => null);
  return folder === null ? null : join(folder, 'bin');
}
