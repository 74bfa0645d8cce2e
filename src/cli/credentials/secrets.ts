import { text as textOf } from 'node:stream/consumers';
import { openStoppedSecrets } from '../../app/stopped-gateway.ts';
import type { SecretChanges } from '../../model/credential-ports.ts';
import { KEY_OF_CLUSTER, MAX_SECRET_BYTES, type SecretView } from '../../model/credentials.ts';
import { SECRET_NAME } from '../../model/names.ts';
import { ControlClient } from '../access/control-client.ts';
import { findRunning } from '../access/find-running.ts';
import { type CommandInput, print } from '../command-input.ts';
import { commandLogger } from '../command-logger.ts';
import { cannotOpen, EXIT, type ExitCode, noSuch, usage } from '../exit-code.ts';
import { storedOptions } from '../sources.ts';

/** `trunkline secret set <name>`: reads the value from a prompt or standard input; all processes can read a command line. */
export async function setSecret(
  input: CommandInput & { readonly name: string; readonly fromStdin: boolean },
): Promise<ExitCode> {
  const { name, fromStdin, terminal } = input;
  if (!SECRET_NAME.test(name)) {
    const words =
      'the name of a secret is 1 to 128 of: letters, digits, "_", ".", "-"; it begins with a letter, digit or "_"';
    throw usage(words);
  }
  const asked = fromStdin
    ? null
    : await terminal.ask?.({ id: name, description: 'Value of the secret', password: true });
  // Removes the line break that `echo` and editors append.
  const value = asked ?? (await textOf(process.stdin)).replace(/\r?\n$/, '');
  const complaint = badValue(value);
  if (complaint !== null) throw usage(complaint);
  return withSecretChanges(input, async (secrets) => {
    const secret = await secrets.put(name, value);
    print(input, { secret }, () => `set ${name}; definitions refer to it as \${secret:${name}}\n`);
  });
}

function badValue(value: string): string | null {
  if (value === '') return 'there is no value: type it, or pipe it to this command';
  if (Buffer.byteLength(value) > MAX_SECRET_BYTES) return `a secret has at most ${MAX_SECRET_BYTES / 1024} KiB`;
  return value.includes('\0') || !value.isWellFormed() ? 'a secret is text, without NUL' : null;
}

/** `trunkline secret list`: prints names, never values. */
export function listSecrets(input: CommandInput): Promise<ExitCode> {
  return withSecretChanges(input, async (changes) => {
    const secrets = await changes.list();
    print(input, { secrets }, () => secretsText(secrets));
  });
}

function secretsText(secrets: readonly SecretView[]): string {
  if (secrets.length === 0) return 'no secrets; set one with: trunkline secret set <name>\n';
  const width = Math.max(...secrets.map(({ name }) => name.length));
  const facts = ({ name, state, changedAt }: SecretView): string =>
    state === 'kept'
      ? `changed ${new Date(changedAt ?? 0).toISOString()}`
      : `cannot be opened, the key that sealed it is gone  set it again: trunkline secret set ${name}`;
  return secrets.map((one) => `${one.name.padEnd(width)}  ${facts(one)}\n`).join('');
}

/** `trunkline secret rm <name>`. */
export function removeSecret(input: CommandInput & { readonly name: string }): Promise<ExitCode> {
  const { name } = input;
  return withSecretChanges(input, async (secrets) => {
    const names = (await secrets.list()).map((one) => one.name);
    if (!names.includes(name) || !(await secrets.delete(name))) throw noSuch(`secret "${name}"`, name, names);
    print(input, { removed: name }, () => `removed ${name}\n`);
  });
}

/** `trunkline secret rotate-key`. */
export function rotateKey(input: CommandInput): Promise<ExitCode> {
  return withSecretChanges(input, async (secrets) => {
    const sealed = await secrets.rotateKey();
    if (sealed === null) throw usage(KEY_OF_CLUSTER);
    print(input, { sealed }, () => `a new key is in force; it has sealed ${sealed} records, and the old one is gone\n`);
  });
}

async function withSecretChanges(
  input: CommandInput,
  run: (secrets: SecretChanges) => Promise<void>,
): Promise<ExitCode> {
  const { changes, close } = await secretAccess(input);
  try {
    await run(changes);
    return EXIT.ok;
  } finally {
    await close();
  }
}

/** The secrets of the running gateway; without one, opens the data folder for the duration of the command. */
export async function secretAccess(input: CommandInput, nearest = true) {
  const { terminal } = input;
  const running = await findRunning({ ...input, serverCommand: [] });
  if (running !== null) return { changes: ofRunning(new ControlClient(running)), close: async () => {} };
  const load = await storedOptions(input, nearest);
  const logger = commandLogger(input);
  const opened = await openStoppedSecrets(load, logger);
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  return opened.secrets;
}

function ofRunning(client: ControlClient): SecretChanges {
  const path = (name: string): string => `/api/v1/secrets/${encodeURIComponent(name)}`;
  return {
    list: async () => (JSON.parse(await client.get('/api/v1/secrets')) as { secrets: SecretView[] }).secrets,
    put: async (name, value) =>
      JSON.parse(await client.send('PUT', path(name), JSON.stringify({ value }))) as SecretView,
    async delete(name) {
      await client.send('DELETE', path(name), null);
      return true;
    },
    rotateKey: async () => (JSON.parse(await client.post('/api/v1/secret-key', '')) as { sealed: number }).sealed,
  };
}
