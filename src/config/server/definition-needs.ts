import { isIP } from 'node:net';
import { bareHost, isPublicAddress } from '../../model/host-address.ts';
import type { Server } from '../../model/server.ts';
import { type Node, type ObjectNode, objectAt } from '../document/node.ts';
import { flattened } from './flattened.ts';

/**
 * What a definition requires beyond connecting to a public address. Definitions in files may require anything; definitions
 * that are added with the control token alone may not.
 */
export type Need =
  /** Runs a program on this machine. */
  | { readonly kind: 'command'; readonly command: string }
  | { readonly kind: 'ssh' | 'container' }
  /** Reads variables or files of the gateway, by a reference or by a key. */
  | { readonly kind: 'reads'; readonly what: string }
  /** Sets a variable that can make a program run other code. */
  | { readonly kind: 'variable'; readonly name: string }
  /** Connects to this machine, its network, or a name that only they resolve. */
  | { readonly kind: 'address'; readonly host: string };

const READING_KEYS = new Set([
  'envFile',
  'env_http_headers',
  'bearer_token_env_var',
  'tls',
  'inheritEnv',
  'env_vars',
  'env_keys',
  'subjectTokenFile',
]);

/** Variables that control loaders, shells and interpreters. */
const STEERING =
  /^(?:LD_|DYLD_|_RLD|GCONV_PATH$|NODE_|NPM_CONFIG_|PYTHON|PERL5?|RUBY|JAVA_TOOL_OPTIONS$|_?JAVA_OPTIONS$|JDK_JAVA_OPTIONS$|CLASSPATH$|DOTNET_|BASH_ENV$|BASH_FUNC_|ENV$|ZDOTDIR$|SHELLOPTS$|BASHOPTS$|PS4$|PROMPT_COMMAND$|IFS$|PATH$|PATHEXT$|COMSPEC$|GIT_|SSH_|UV_|PIP_|DENO_|BUN_|EDITOR$|VISUAL$|PAGER$|LESSOPEN$|HOME$|TMPDIR$|OPENSSL_|SSL_|GLIBC_TUNABLES$|MALLOC_|LUA_|PHPRC$|R_PROFILE|DOCKER_)/i;

/** In the order in which messages list them. */
export function needsOf(node: ObjectNode, { transport }: Server): readonly Need[] {
  const needs: Need[] = [];
  if (transport.type === 'stdio') {
    needs.push({ kind: 'command', command: transport.command });
    if (transport.ssh != null) needs.push({ kind: 'ssh' });
    for (const name of Object.keys(transport.env)) if (STEERING.test(name)) needs.push({ kind: 'variable', name });
  } else if (transport.type === 'docker') needs.push({ kind: 'container' });
  else if (transport.type !== 'memory') {
    if (!isPublicUrl(transport.url)) needs.push({ kind: 'address', host: new URL(transport.url).hostname });
    const exec = transport.auth?.exec ?? null;
    if (exec !== null) needs.push({ kind: 'command', command: exec.command });
    for (const name of Object.keys(exec?.env ?? {})) if (STEERING.test(name)) needs.push({ kind: 'variable', name });
  }
  return [...needs, ...readsOf(node)];
}

/** What the definition reads from the gateway, determined before any of it is read. */
export function readsOf(node: ObjectNode): readonly Need[] {
  const reads: Need[] = [];
  const whole = flattened(node);
  const keys = [whole, objectAt(whole, 'auth'), objectAt(whole, 'oauth')].flatMap((map) => map?.members ?? []);
  for (const { key } of keys) if (READING_KEYS.has(key)) reads.push({ kind: 'reads', what: key });
  if (refers(node)) reads.push({ kind: 'reads', what: '${…}' });
  return reads;
}

function refers(node: Node): boolean {
  if (node.kind === 'object') return node.members.some(({ key, value }) => key.includes('${') || refers(value));
  if (node.kind === 'array') return node.items.some(refers);
  return node.kind === 'string' && node.text.includes('${');
}

/** Names that resolve within a machine or network only, or name the metadata service of a cloud. */
const LOCAL_NAME =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|lan|home|corp|private|test|onion)$|\.arpa$/;

/**
 * Whether the host of a URL is public. WHATWG parsing turns decimal, octal and hexadecimal spellings into addresses. The
 * address that a name resolves to is checked when connecting.
 */
export function isPublicUrl(url: string): boolean {
  const host = bareHost(new URL(url).hostname).toLowerCase().replace(/\.$/, '');
  if (isIP(host) !== 0) return isPublicAddress(host);
  return host.includes('.') && !LOCAL_NAME.test(host);
}
