import { createHash } from 'node:crypto';
import { EXPOSED_NAME_AIM, EXPOSED_NAME_MAX, TOOL_NAME_DELIMITER } from '../model/names.ts';

export interface NamedCapability {
  readonly server: string;
  /** The server's own name. */
  readonly name: string;
}

/** A name that was changed or is not offered, for the operator. */
export interface NameNotice {
  readonly server: string;
  readonly name: string;
  readonly exposed: string | null;
  readonly reason: string;
}

interface ExposedNames {
  /** In the order of the input; null for an item that is not offered. */
  readonly names: readonly (string | null)[];
  readonly notices: readonly NameNotice[];
}

const HASH_DIGITS = 8;
/** Characters of a shortened name for the server's part; the rest is for the tool. */
const SERVER_SHARE = 20;

interface Candidate {
  readonly at: number;
  readonly item: NamedCapability;
  readonly plain: string;
  readonly folded: string;
  /** Whether `plain` is exactly `server__name`. */
  readonly exact: boolean;
}

/**
 * Gives every capability the name that clients see: `server__name` in A-Z a-z 0-9 _ -, at most `EXPOSED_NAME_AIM` characters,
 * unique even for clients that replace `-` by `_` (S2.2, W3.8). Names that do not fit are mapped or shortened; names that
 * collide get a hash of their server and own name. A name depends only on its own server and name and on those it collides
 * with, never on order or on others.
 */
export function exposeNames(items: readonly NamedCapability[]): ExposedNames {
  const names = new Array<string | null>(items.length).fill(null);
  const notices: NameNotice[] = [];
  const candidates: Candidate[] = [];
  const seen = new Set<string>();
  items.forEach((item, at) => {
    const identity = `${item.server}\0${item.name}`;
    if (seen.has(identity)) {
      notices.push({ ...item, exposed: null, reason: 'the server lists this name twice; the first one counts' });
      return;
    }
    seen.add(identity);
    const full = prefixTool(item.server, item.name);
    const plain = fit(item.server, mapName(item.name), full);
    candidates.push({ at, item, plain, folded: fold(plain), exact: plain === full });
  });
  const taken = new Set<string>();
  const contested: { candidate: Candidate; hashed: string; met: NamedCapability }[] = [];
  for (const group of Map.groupBy(candidates, ({ folded }) => folded).values()) {
    const keeper = group.length === 1 ? group[0] : soleExact(group);
    if (keeper !== undefined) {
      taken.add(keeper.folded);
      names[keeper.at] = keeper.plain;
      if (!keeper.exact) notices.push({ ...keeper.item, exposed: keeper.plain, reason: whyChanged(keeper) });
    }
    for (const candidate of group) {
      if (candidate === keeper) continue;
      const hashed = withHash(candidate.plain, candidate.item);
      contested.push({ candidate, hashed, met: group.find((other) => other !== candidate)!.item });
    }
  }
  // A hashed name that still collides, with another hashed name or with a plain one, is not offered.
  const alike = Map.groupBy(contested, ({ hashed }) => fold(hashed));
  for (const { candidate, hashed, met } of contested) {
    const rival = `'${prefixTool(met.server, met.name)}'`;
    const clear = !taken.has(fold(hashed)) && alike.get(fold(hashed))!.length === 1;
    const reason = clear ? `would read the same as ${rival} to some clients` : `cannot be distinguished from ${rival}`;
    notices.push({ ...candidate.item, exposed: clear ? hashed : null, reason });
    if (clear) names[candidate.at] = hashed;
  }
  return { names, notices: notices.sort(byItem) };
}

/** Names with the same fold collide for some clients: Codex replaces `-` by `_`. */
function fold(name: string): string {
  return name.replaceAll('-', '_');
}

/** The server's part of a name, with a hash if it is mapped: otherwise `my.server` would get the calls of `my-server`. */
function mapServer(server: string): string {
  const mapped = server.replace(/[^A-Za-z0-9_-]|_(?=_|$)/g, '-');
  return mapped === server ? server : shortServer(mapped, server);
}

function mapName(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]/gu, '_');
}

function fit(server: string, name: string, full: string): string {
  const mapped = mapServer(server);
  const plain = prefixTool(mapped, name);
  if (plain.length <= EXPOSED_NAME_AIM) return plain;
  const head = mapped.length > SERVER_SHARE ? shortServer(mapped, server) : mapped;
  return cut(prefixTool(head, name), full);
}

/** The beginning of the name and a hash of the server's own name, so that its tools stay next to each other. */
function shortServer(mapped: string, server: string): string {
  return `${mapped.slice(0, SERVER_SHARE - 5).replace(/_+$/, '')}-${digest(server).slice(0, 4)}`;
}

function withHash(plain: string, item: NamedCapability): string {
  return cut(plain, prefixTool(item.server, item.name));
}

/** The beginning of the name and a hash of the full name, together at most `EXPOSED_NAME_AIM` characters. */
function cut(name: string, full: string): string {
  return `${name.slice(0, EXPOSED_NAME_AIM - HASH_DIGITS - 1)}_${digest(full).slice(0, HASH_DIGITS)}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function soleExact(group: readonly Candidate[]): Candidate | undefined {
  const exact = group.filter((candidate) => candidate.exact);
  return exact.length === 1 ? exact[0] : undefined;
}

function whyChanged(candidate: Candidate): string {
  const full = candidate.item.server.length + TOOL_NAME_DELIMITER.length + candidate.item.name.length;
  return full > EXPOSED_NAME_AIM
    ? `longer than ${EXPOSED_NAME_AIM} characters with its server (clients refuse ${EXPOSED_NAME_MAX})`
    : 'has characters that clients refuse';
}

function byItem(a: NameNotice, b: NameNotice): number {
  return compare(a.server, b.server) || compare(a.name, b.name);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The prefix of clients that bridge MCP tools into their own namespace (S4.13, S4.15). */
const BRIDGE_PREFIX = 'mcp__';

export interface PrefixedTool {
  readonly server: string;
  readonly tool: string;
}

/** `server__tool` without checks or shortening (S2.3). `exposeNames` makes the exposed names. */
export function prefixTool(server: string, tool: string): string {
  return server + TOOL_NAME_DELIMITER + tool;
}

/** Splits at the first `__`; parts may be empty (S2.4). For operators, embedding, and names that `NameTable` does not have. */
export function parsePrefixedTool(prefixed: string): PrefixedTool {
  const at = prefixed.indexOf(TOOL_NAME_DELIMITER);
  if (at < 0) throw new TypeError(`invalid tool name format: ${prefixed} (expected agent__tool)`);
  return { server: prefixed.slice(0, at), tool: prefixed.slice(at + TOOL_NAME_DELIMITER.length) };
}

/** The name without a client's `mcp__`; null if it has no such prefix. */
export function withoutBridgePrefix(name: string): string | null {
  return name.startsWith(BRIDGE_PREFIX) ? name.slice(BRIDGE_PREFIX.length) : null;
}

/** An exposed name as bridging clients show it to a model: `mcp__server__tool` (S4.15). */
export function bridgePrefixed(exposed: string): string {
  return BRIDGE_PREFIX + exposed;
}
