import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

/** What the words for a server describe: a URL, or a command with its arguments. */
type Target = { readonly url: string } | { readonly command: string; readonly args: readonly string[] };

/** Why the words describe neither. */
interface TargetComplaint {
  readonly complaint: string;
  readonly fix: string;
  /** Index of the first word at fault. */
  readonly at: number;
}

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i;
/** `localhost:3000/mcp`, `https//host`, `www.example.com/mcp`. */
const NEARLY_URL = /^(?:https?(?::\/|\/{1,2})\w|[\w.-]+:\d+(?:\/|$)|www\.)/i;
/** `example.com/mcp`; the path of a program can look the same. */
const HOST_AND_PATH = /^(?:[a-z0-9][a-z0-9-]*\.)+[a-z]{2,}\/(?!.*\.\.)/i;

/** `remote`: whether the user asked for a remote server; null if not specified. `folder`: base of relative paths. */
export function targetOf(
  [first, ...rest]: readonly [string, ...string[]],
  remote: boolean | null,
  folder: string,
): Target | TargetComplaint {
  const isNearly = NEARLY_URL.test(first) || (HOST_AND_PATH.test(first) && !existsSync(resolve(folder, first)));
  if (remote === null && rest.length === 0 && isNearly) {
    const fix = 'write http:// or https:// before it';
    return { complaint: `${first} is no command and lacks its scheme`, fix, at: 0 };
  }
  const [variable] = /^[A-Za-z_]\w*(?==)/.exec(first) ?? [];
  if (variable !== undefined) {
    const fix = `write -e ${variable}=… before the command`;
    return { complaint: `${variable} is a variable, no command`, fix, at: 0 };
  }
  if (first.startsWith('-')) {
    return { complaint: `${first} is no command`, fix: 'begin with the command, or with an address', at: 0 };
  }
  if (!(remote ?? ADDRESS.test(first))) return { command: first, args: rest };
  if (rest.length === 0) return { url: first };
  const fix = 'put them into the url, or name a command';
  return { complaint: `a url takes no arguments: ${rest.join(' ')}`, fix, at: 1 };
}
