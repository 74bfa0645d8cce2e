/** S2.2: separates server and tool in an exposed name; fits client patterns such as `^[a-zA-Z0-9_-]{1,64}$`. */
export const TOOL_NAME_DELIMITER = '__';

/** Server names, safe in paths, subjects and file names. `__` would be ambiguous; `config/` maps other characters. */
export const SERVER_NAME_PATTERN = /^(?=.{1,64}$)[A-Za-z0-9](?:[A-Za-z0-9.-]|_(?=[A-Za-z0-9.-]))*$/;

/** The maximum length of an exposed name, and the target length (clients add prefixes of their own). */
export const EXPOSED_NAME_MAX = 64;
export const EXPOSED_NAME_AIM = 48;

/** Tool names that are offered: 1–128 characters (2026-07-28 server/tools §Tool Names), and `/` of earlier drafts. */
const TOOL_NAME = /^[A-Za-z0-9_./-]{1,128}$/;

/** Why a tool of this name is not offered; null if it is. */
export function toolNameFault(name: string): string | null {
  if (TOOL_NAME.test(name)) return null;
  if (name === '') return 'the name is empty';
  if (name.length > 128) return 'the name is longer than 128 characters';
  return 'the name has characters outside A-Z a-z 0-9 _ - . /';
}

/** The local name of a server that a registry lists as `owner/name`. */
export function serverNameOf(registryName: string): string {
  return (registryName.split('/')[1] ?? registryName).replaceAll(/[^A-Za-z0-9.-]+/g, '-').slice(0, 48);
}

/** Names that fold to the same text collide in clients that map `-` to `_`, and on file systems that ignore case. */
export function foldedName(server: string): string {
  return server.toLowerCase().replaceAll('_', '-');
}

/** The name that `trunkline link` gives the gateway in configuration files of clients. */
export const LINKED_NAME = 'tl';

/** Names of secrets; they appear in references, and unescaped in paths of the control API. */
export const SECRET_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
