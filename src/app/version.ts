import { readFileSync } from 'node:fs';

let version: string | null = null;

/** The version in package.json, which lies one folder above both `src/` and `dist/`. */
export function productVersion(): string {
  version ??= (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string })
    .version;
  return version;
}
