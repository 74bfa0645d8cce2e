/** S2.2: between server and tool in an exposed name; fits client patterns such as `^[a-zA-Z0-9_-]{1,64}$`. */
export const TOOL_NAME_DELIMITER = '__';

/** Names of servers, safe in paths, subjects and file names. `__` is ambiguous; `config/` maps other characters. */
export const SERVER_NAME_PATTERN = /^(?=.{1,64}$)[A-Za-z0-9](?:[A-Za-z0-9.-]|_(?=[A-Za-z0-9.-]))*$/;

/** Longest exposed name in all, and the length aimed at (clients put prefixes of their own before it). */
export const EXPOSED_NAME_MAX = 64;
export const EXPOSED_NAME_AIM = 48;

/** The name here of a server that a registry knows as `owner/name`. */
export function serverNameOf(registryName: string): string {
  return (registryName.split('/')[1] ?? registryName).replaceAll(/[^A-Za-z0-9.-]+/g, '-').slice(0, 48);
}

/** Names that fold alike are one name to some clients, which take `-` for `_`, and to file systems that ignore case. */
export function foldedName(server: string): string {
  return server.toLowerCase().replaceAll('_', '-');
}

/** What `trunkline link` calls the gateway in the files of clients. */
export const LINKED_NAME = 'trunkline';

/** Names of secrets: they stand in references, and as they are in paths of the control API. */
export const SECRET_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
