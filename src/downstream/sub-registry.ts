import { isIP } from 'node:net';
import type { RequestContext } from '../http/listener/request-context.ts';
import type { RouteTable } from '../http/listener/route-table.ts';
import { ANONYMOUS, type ClientProfile, mayUse, type Principal } from '../model/client-profile.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { bareHost } from '../model/host-address.ts';
import { LATEST_STATEFUL } from '../model/message.ts';
import type { Authenticator, Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';

interface SubRegistryDeps {
  readonly authenticator: Authenticator;
  /** Knows the versions of servers that were listed. */
  readonly upstreams: Pick<Upstreams, 'knownCatalog'>;
  readonly state: () => Pick<DesiredState, 'servers' | 'agents' | 'listen' | 'unknownCallers'>;
}

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json';
const META = 'io.modelcontextprotocol.registry/official';
/** Version of a server that states none. */
const NO_VERSION = '1.0.0';
/** Versions that `server.json` allows, without the word for the newest one. */
const VERSION = /^(?!latest$)[\w.+-]{1,255}$/;
const PAGE = 30;
const MAX_PAGE = 100;
const LONGEST_DESCRIPTION = 100;
/** `{name}`, `{name}/versions` and `{name}/versions/{version}`; the slash of a name arrives as `%2F`. */
const REST = /^[A-Za-z0-9._~%+/-]{1,700}$/;
const OF_ONE = /^(.+?)\/versions(?:\/([^/]+))?$/;

interface SubRegistryEntry {
  readonly name: string;
  /** The registry entry as it is sent. */
  readonly entry: object;
  readonly version: string;
  readonly updatedAt: number;
}

/** By server, the text of its entry and the time of its last change. */
type SubRegistryChanges = Map<string, { readonly text: string; readonly at: number }>;

/**
 * The servers of this gateway as a registry with API v0.1, for clients that install servers from one. A caller sees the
 * servers that it may use. Clients append `/v0.1` to an address that may already end with it.
 */
export function registerSubRegistry(routes: RouteTable, deps: SubRegistryDeps): void {
  const { authenticator, state } = deps;
  const changes: SubRegistryChanges = new Map();
  const serve = (context: RequestContext, run: (servers: readonly SubRegistryEntry[]) => void): void => {
    const principal = readerOf(context, authenticator, state().listen.anonymousRegistry);
    if (principal === null) {
      const message = 'send the key of an agent as "Authorization: Bearer <key>"';
      const challenge = ['WWW-Authenticate', 'Bearer realm="trunkline"'];
      context.json(401, JSON.stringify({ error: `Unauthorized: ${message}` }), challenge);
      return;
    }
    run(listed(deps, principal, state().listen.publicUrl ?? context.publicOrigin, changes));
  };
  for (const base of ['/v0.1', '/v0.1/v0.1']) {
    routes.add(`${base}/servers`, { GET: (context) => serve(context, (servers) => list(context, servers)) });
    const one = { GET: (context: RequestContext) => serve(context, (servers) => version(context, servers)) };
    routes.add(`${base}/servers/{name}`, one, { param: REST });
  }
}

function readerOf({ headers }: RequestContext, authenticator: Authenticator, anonymous: boolean): Principal | null {
  return authenticator.authenticate(headers.authorization) ?? (anonymous ? ANONYMOUS : null);
}

function listed(
  { authenticator, state, upstreams }: SubRegistryDeps,
  principal: Principal,
  base: string,
  changes: SubRegistryChanges,
): readonly SubRegistryEntry[] {
  const { servers } = state();
  const reader = readingProfile(principal);
  const needsKey = authenticator.authenticate(undefined) === null;
  const space = namespaceOf(base);
  const found: SubRegistryEntry[] = [];
  for (const server of servers.values()) {
    // A server that was added for one session is hidden from others.
    if (!server.enabled || server.onlyFor !== undefined || !mayUse(principal, server.name)) continue;
    const name = `${space}/${server.name}`;
    const catalog = upstreams.knownCatalog(server.name, reader, true);
    const version = versionIn(catalog?.handshake.serverInfo ?? null);
    const detail = { ...detailOf(server, name, `${base}/servers/${server.name}/mcp`, needsKey), version };
    // Without the addresses, which depend on the `Host` of the request.
    const text = JSON.stringify([server.description, version, needsKey]);
    const known = changes.get(server.name);
    // A server that an earlier process listed changed no later than its catalogue was listed.
    const updatedAt = known?.text === text ? known.at : (known === undefined && catalog?.listedAt) || Date.now();
    if (known?.text !== text) changes.set(server.name, { text, at: updatedAt });
    const at = new Date(updatedAt).toISOString();
    const official = { status: 'active', publishedAt: at, updatedAt: at, isLatest: true };
    found.push({ name, entry: { server: detail, _meta: { [META]: official } }, version, updatedAt });
  }
  for (const name of changes.keys()) if (!servers.has(name)) changes.delete(name);
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The server's own version, if it states one that a registry may have. */
function versionIn(serverInfo: string | null): string {
  const { version } = (serverInfo === null ? {} : JSON.parse(serverInfo)) as { version?: unknown };
  return typeof version === 'string' && VERSION.test(version) ? version : NO_VERSION;
}

function readingProfile(principal: Principal): ClientProfile {
  const undeclared = { sessionId: null, info: null, logLevel: null, handle: null, fingerprint: '' };
  return { principal, revision: LATEST_STATEFUL, capabilities: '{}', ...undeclared };
}

function detailOf({ name: own, description }: Server, name: string, url: string, needsKey: boolean): object {
  const key = {
    name: 'Authorization',
    description: 'Key of an agent of the gateway',
    value: 'Bearer {key}',
    isRequired: true,
    isSecret: true,
    variables: { key: { description: 'Key of an agent of the gateway', isRequired: true, isSecret: true } },
  };
  return {
    $schema: SCHEMA,
    name,
    title: own,
    description: [...(description || `${own}, through this gateway`)].slice(0, LONGEST_DESCRIPTION).join(''),
    remotes: [{ type: 'streamable-http', url, ...(needsKey ? { headers: [key] } : {}) }],
  };
}

/** `com.example.mcp` for `https://mcp.example.com`; IP addresses and bare names cannot be reversed. */
function namespaceOf(base: string): string {
  const host = bareHost(new URL(base).hostname);
  return isIP(host) !== 0 || !host.includes('.') ? 'localhost' : host.split('.').reverse().join('.');
}

function list(context: RequestContext, servers: readonly SubRegistryEntry[]): void {
  const query = new URLSearchParams(context.query);
  const limit = Number(query.get('limit') ?? PAGE);
  if (!Number.isInteger(limit) || limit < 1) {
    refuse(context, 400, `limit has to be a whole number from 1 to ${MAX_PAGE}`);
    return;
  }
  const since = query.get('updated_since');
  const from = since === null ? 0 : Date.parse(since);
  if (Number.isNaN(from)) {
    refuse(context, 400, 'updated_since has to be a time like 2026-01-31T12:00:00Z');
    return;
  }
  const words = (query.get('search') ?? '').toLowerCase();
  const wanted = query.get('version') ?? 'latest';
  const after = query.get('cursor') ?? '';
  const rest = servers.filter(
    (one) =>
      one.name > after && one.updatedAt >= from && one.name.toLowerCase().includes(words) && isVersion(one, wanted),
  );
  const page = rest.slice(0, Math.min(limit, MAX_PAGE));
  send(context, page, rest.length > page.length ? page.at(-1)!.name : null);
}

function version(context: RequestContext, servers: readonly SubRegistryEntry[]): void {
  const [, name = null, wanted = null] = OF_ONE.exec(decoded(context.param)) ?? [];
  const found = servers.find((one) => one.name === name);
  if (found === undefined) refuse(context, 404, 'Server not found');
  else if (wanted === null) send(context, [found], null);
  else if (isVersion(found, wanted)) context.json(200, JSON.stringify(found.entry));
  else refuse(context, 404, 'Server version not found');
}

function isVersion({ version }: SubRegistryEntry, wanted: string): boolean {
  return wanted === 'latest' || wanted === version;
}

/** Only compared with existing names; empty if it cannot be decoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

function send(context: RequestContext, page: readonly SubRegistryEntry[], nextCursor: string | null): void {
  const metadata = { count: page.length, ...(nextCursor === null ? {} : { nextCursor }) };
  context.json(200, JSON.stringify({ servers: page.map(({ entry }) => entry), metadata }));
}

function refuse(context: RequestContext, status: number, error: string): void {
  context.json(status, JSON.stringify({ error }));
}
