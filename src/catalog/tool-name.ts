import { TOOL_NAME_DELIMITER } from '../model/names.ts';

/** What clients that bridge MCP tools into their own name space put in front (S4.13, S4.15). */
const BRIDGE_PREFIX = 'mcp__';

export interface PrefixedTool {
  readonly server: string;
  readonly tool: string;
}

/** `server__tool`, as it is; nothing is checked or shortened (S2.3). What is exposed comes from `exposeNames`. */
export function prefixTool(server: string, tool: string): string {
  return server + TOOL_NAME_DELIMITER + tool;
}

/**
 * Splits at the first `__`; empty parts are accepted (S2.4). For people's input and embedding: calls are routed by
 * the catalogue's table.
 */
export function parsePrefixedTool(prefixed: string): PrefixedTool {
  const at = prefixed.indexOf(TOOL_NAME_DELIMITER);
  if (at < 0) throw new TypeError(`invalid tool name format: ${prefixed} (expected agent__tool)`);
  return { server: prefixed.slice(0, at), tool: prefixed.slice(at + TOOL_NAME_DELIMITER.length) };
}

/** The name without a client's `mcp__`; null where it has none. */
export function withoutBridgePrefix(name: string): string | null {
  return name.startsWith(BRIDGE_PREFIX) ? name.slice(BRIDGE_PREFIX.length) : null;
}

/** An exposed name as bridging clients show it to a model: `mcp__server__tool` (S4.15). */
export function bridgePrefixed(exposed: string): string {
  return BRIDGE_PREFIX + exposed;
}

/**
 * What servers may call a tool: 1–128 characters (2026-07-28 server/tools §Tool Names), `/` as earlier drafts had
 * it. Others are not offered: they break clients, and some could not be told apart after mapping.
 */
const OFFERED_NAME = /^[A-Za-z0-9_./-]{1,128}$/;

/** Why a server's tool cannot be offered; null when it can. */
export function toolNameFault(name: string): string | null {
  if (OFFERED_NAME.test(name)) return null;
  if (name === '') return 'the name is empty';
  if (name.length > 128) return 'the name is longer than 128 characters';
  return 'the name has characters outside A-Z a-z 0-9 _ - . /';
}
