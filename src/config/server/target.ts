/** What words mean that name a server: an address, or a command with its arguments. */
type Target = { readonly url: string } | { readonly command: string; readonly args: readonly string[] };

/** Why they can be neither. */
interface TargetComplaint {
  readonly complaint: string;
  readonly fix: string;
  /** Index of the first word that it is about. */
  readonly at: number;
}

const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i;
/** `localhost:3000/mcp`, `https//host`, `www.example.com/mcp`. */
const NEARLY_URL = /^(?:https?(?::\/|\/{1,2})\w|[\w.-]+:\d+(?:\/|$)|www\.)/i;

/** `remote`: what the user has said of it; null where nothing was said. */
export function targetOf(
  [first, ...rest]: readonly [string, ...string[]],
  remote: boolean | null = null,
): Target | TargetComplaint {
  if (remote === null && rest.length === 0 && NEARLY_URL.test(first)) {
    const fix = 'write http:// or https:// before it';
    return { complaint: `${first} is no command and lacks its scheme`, fix, at: 0 };
  }
  if (!(remote ?? ADDRESS.test(first))) return { command: first, args: rest };
  if (rest.length === 0) return { url: first };
  const fix = 'put them into the url, or name a command';
  return { complaint: `a url takes no arguments: ${rest.join(' ')}`, fix, at: 1 };
}
