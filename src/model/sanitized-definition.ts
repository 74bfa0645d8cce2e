import { launcherOf } from './launchers.ts';
import { SanitizedText } from './sanitized-text.ts';
import { isSecretHeader, isSecretVariable, MASK, revealed, Secret, secretForms } from './secret.ts';
import type { Server, TransportSpec } from './server.ts';

/** The parts of a server's definition that anyone may see, and the secrets in it. */
interface SanitizedDefinition {
  /** Command of a process; null for other servers. References to secrets stay as written. */
  readonly command: string | null;
  readonly args: readonly string[];
  /** URL of an HTTP server, without user, query and fragment; null for other servers. */
  readonly url: string | null;
  /** The image or container of a Docker server. */
  readonly container: string | null;
  readonly env: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  /** Values that the scrubber masks in all texts. */
  readonly secrets: readonly string[];
}

/** Shorter values, such as `1`, occur in every text. */
const SHORTEST_VALUE = 4;

const SANITIZED = new WeakMap<TransportSpec, SanitizedDefinition>();

/**
 * Masks every field that may hold a secret, by its place or form, and masks too much rather than too little. Only values that
 * are certainly secret go into `secrets`: a log without every file name that looks like one would be useless.
 */
export function sanitizedDefinition(transport: TransportSpec): SanitizedDefinition {
  let sanitized = SANITIZED.get(transport);
  if (sanitized === undefined) SANITIZED.set(transport, (sanitized = sanitize(transport)));
  return sanitized;
}

/** The texts that the scrubber masks for a server: the secrets of its definition, and keys in its description. */
export function secretsOf({ transport, description }: Pick<Server, 'transport' | 'description'>): string[] {
  const secrets = [...sanitizedDefinition(transport).secrets];
  new SanitizedText(description ?? '', [], (value) => secrets.push(value), false).words(false);
  return secrets;
}

export function sanitizedDescription(text: string, transport: TransportSpec): string {
  return new SanitizedText(text, givenTo(transport), null, true).words(false).toString();
}

/** The secrets among the values of variables and headers. Other values, such as `production`, may be words of any text. */
function givenTo(transport: TransportSpec): string[] {
  const env = Object.entries('env' in transport ? revealed(transport.env) : {});
  const headers = Object.entries('headers' in transport ? revealed(transport.headers) : {});
  const secret = [
    ...env.filter(([name, value]) => isSecretVariable(name, value)),
    ...headers.filter(([name]) => isSecretHeader(name)),
  ];
  return secret.map(([, value]) => value).filter(({ length }) => length >= SHORTEST_VALUE);
}

function sanitize(transport: TransportSpec): SanitizedDefinition {
  const env = 'env' in transport ? revealed(transport.env) : {};
  const headers = 'headers' in transport ? revealed(transport.headers) : {};
  const given = givenTo(transport);
  const secrets = new Set<string>();
  const keep = (value: string): void => {
    for (const form of secretForms(value)) secrets.add(form);
  };
  for (const [name, value] of Object.entries(env)) if (isSecretVariable(name, value)) keep(value);
  for (const [name, value] of Object.entries(headers)) if (isSecretHeader(name)) keep(value);
  const auth = 'auth' in transport ? (transport.auth ?? null) : null;
  for (const value of Object.values(auth ?? {})) if (value instanceof Secret) keep(value.reveal());
  const exec = auth?.exec ?? null;
  const look = (text: string): unknown => new SanitizedText(text, given, keep, false).words(false);
  const lookAt = (args: readonly string[]): void => {
    for (const [i, arg] of args.entries()) new SanitizedText(arg, given, keep, false).argument(args[i - 1] ?? '');
  };
  const shown = (written: string): SanitizedText => new SanitizedText(written, given, null, true);
  let command: string | null = null;
  let args: string[] = [];
  let url: string | null = null;
  let container: string | null = null;
  if (transport.type === 'stdio') {
    for (const place of [transport.command, transport.cwd, transport.ssh?.identityFile ?? '']) look(place);
    lookAt(transport.args);
    const written = transport.written ?? transport;
    command = shown(written.command).words(false).toString();
    const runs = packageAt(written.command, written.args);
    args = written.args.map((arg, i) =>
      shown(arg)
        .argument(written.args[i - 1] ?? '', i === runs)
        .toString(),
    );
  } else if (transport.type === 'docker') {
    const { target, engine } = transport;
    if (engine !== null) look(engine);
    if ('image' in target) look(target.image.name);
    container = 'container' in target ? target.container : shown(target.image.name).words(false).toString();
    if ('image' in target) {
      for (const [name, value] of Object.entries(target.image.labels)) if (isSecretVariable(name, value)) keep(value);
      for (const place of target.image.volumes) look(place);
      lookAt([...(target.image.entrypoint ?? []), ...target.image.command]);
    }
  } else if (transport.type !== 'memory') {
    look(transport.url);
    for (const value of Object.values(revealed(exec?.env ?? {}))) keep(value);
    lookAt([exec?.command ?? '', ...(exec?.args ?? [])]);
    url = shown(transport.writtenUrl ?? transport.url)
      .words(false)
      .toString();
    if (transport.tls.key !== undefined) keep(transport.tls.key.reveal());
  }
  return {
    command,
    args,
    url,
    container,
    env: masked(env),
    headers: masked(headers),
    secrets: [...secrets].sort((a, b) => b.length - a.length),
  };
}

/** A name of several words, which keys are not: in lower case, with a hyphen or a scope. */
const PACKAGE = /^(?:@[a-z0-9][a-z0-9._-]*\/[a-z0-9][a-z0-9._-]*|[a-z0-9][a-z0-9._]*-[a-z0-9._-]+)(?:@[\w.^~*-]+)?$/;

/** Index of the argument that names the package to run; -1 if there is none or it is uncertain. */
function packageAt(command: string, args: readonly string[]): number {
  if (launcherOf(command)?.fetches !== true) return -1;
  const at = args.findIndex((arg) => !arg.startsWith('-'));
  return at >= 0 && PACKAGE.test(args[at]!) ? at : -1;
}

function masked(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.keys(values).map((name) => [name, MASK]));
}
