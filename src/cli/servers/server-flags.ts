import { CommandError, EXIT } from '../exit-code.ts';

/** The flags of `add`, which clients' own `mcp add` have as well. */
export interface ServerFlags {
  readonly transport?: string;
  readonly env?: readonly string[];
  readonly header?: readonly string[];
  readonly scope?: string;
  readonly description?: string;
}

/** The definition that the words mean: a url, or a command with its arguments. */
export function definitionFrom(flags: ServerFlags, target: string | undefined, words: readonly string[]): object {
  const { transport, env = [], header = [], scope, description } = flags;
  if (scope === 'project') {
    throw usage('the gateway does not write configuration files: add the server to the file, or omit "-s project"');
  }
  const command = [...(target === undefined ? [] : [target]), ...words];
  if (command.length === 0)
    throw usage('name a url, or a command behind "--": trunkline add files -- npx -y some-server');
  const common = {
    ...(transport === undefined ? {} : { type: transport }),
    ...(description === undefined ? {} : { description }),
  };
  const remote = transport === undefined ? /^[a-z][a-z0-9+.-]*:\/\//i.test(command[0]!) : transport !== 'stdio';
  if (remote) {
    if (command.length > 1) throw usage(`a url takes no arguments: ${command.slice(1).join(' ')}`);
    if (env.length > 0) throw usage('-e is for commands; headers of a url are -H "Name: value"');
    return { ...common, url: command[0], ...(header.length === 0 ? {} : { headers: pairs(header, ':', '-H') }) };
  }
  if (header.length > 0) throw usage('-H is for urls; variables of a command are -e NAME=value');
  return {
    ...common,
    command: command[0],
    args: command.slice(1),
    ...(env.length === 0 ? {} : { env: pairs(env, '=', '-e') }),
  };
}

function pairs(texts: readonly string[], separator: string, flag: string): Record<string, string> {
  const found = new Map<string, string>();
  for (const text of texts) {
    const cut = text.indexOf(separator);
    if (cut <= 0)
      throw usage(`${flag} takes a name and a value with "${separator}" between them: ${text.slice(0, 40)}`);
    const value = text.slice(cut + 1);
    found.set(text.slice(0, cut).trim(), separator === ':' ? value.trim() : value);
  }
  return Object.fromEntries(found);
}

/** `90s`, `10m`, `2h`, or milliseconds. */
export function durationMs(text: string): number {
  const [, digits, unit = 'ms'] = /^(\d{1,9})(ms|s|m|h|d)?$/.exec(text) ?? [];
  if (digits === undefined) throw usage(`--ttl takes a time such as 90s, 10m or 2h: ${text.slice(0, 40)}`);
  const factor = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit]!;
  return Number(digits) * factor;
}

function usage(message: string): CommandError {
  return new CommandError(EXIT.usage, message);
}
