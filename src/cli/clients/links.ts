import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type ClientApp, clientsHere, isInstalled } from '../../app/clients/clients.ts';
import { entryIn, NotEditable, namesIn, withEntry } from '../../app/clients/edit-file.ts';
import { defaultDataDir } from '../../app/running.ts';
import type { CommandInput } from '../command-input.ts';

/** A gateway in the file of a client. */
interface LinkedGateway {
  readonly name: string;
  /** The address that `link` wrote; absent in records of earlier versions. */
  readonly url?: string;
}

/** A server of the user that `link --replace` took out of the file, or that `link` wrote its own entry over. */
interface ReplacedServer {
  readonly name: string;
  readonly entry: object;
}

/** State of a file without the entries of `link`, for `unlink` to restore. Earlier versions wrote one entry in place of a list. */
interface LinkRecord {
  readonly file: string;
  /** Base64; null if the file did not exist. */
  readonly before: string | null;
  /** SHA-256 of what the last `link` or `unlink` wrote. */
  readonly after: string;
  readonly entries: readonly LinkedGateway[];
  /** What `unlink` puts back into a file that has changed since. Records of earlier versions have none. */
  readonly replaced: readonly ReplacedServer[];
}

/** The client files that `link` has changed. Readable by the user alone, since the files may contain keys. */
export class Links {
  readonly #folder: string;

  constructor(dataDir: string) {
    this.#folder = join(dataDir, 'links');
  }

  get(client: string): LinkRecord | null {
    try {
      const record = JSON.parse(readFileSync(this.#fileOf(client), 'utf8')) as LinkRecord & LinkedGateway;
      const { file, before, after, name, url, entries = [{ name, ...(url === undefined ? {} : { url }) }] } = record;
      const { replaced = [] } = record;
      return { file, before, after, entries, replaced };
    } catch {
      // Without a valid record `unlink` removes the entry alone.
      return null;
    }
  }

  /** Writes the file and records its content without the entries of `link`. */
  write(client: ClientApp, file: string, before: Buffer | null, text: string, as: LinkedGateway): void {
    const { id } = client;
    const recorded = this.get(id);
    const known = recorded?.file === file ? recorded : null;
    const continues = known !== null && before !== null && known.after === digestOf(before);
    const first = continues ? known.before : (unlinkedBytes(before, client, known)?.toString('base64') ?? null);
    // With --replace the others are gone.
    const others = (known?.entries ?? []).filter(({ name }) => name !== as.name && entryIn(text, client, name));
    const taken = replacedBy(before, text, client, known?.entries ?? [], as.name);
    // A server of one of these names that is there again is the user's, who may remove it.
    const ours = (name: string): boolean => known?.entries.some((one) => one.name === name) === true;
    const isGone = (name: string): boolean => ours(name) || entryIn(textOf(before), client, name) === undefined;
    const earlier = (known?.replaced ?? []).filter(({ name }) => isGone(name));
    const replaced = [...earlier, ...taken];
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#put(id, { file, before: first, after: digestOf(Buffer.from(text)), entries: [...others, as], replaced });
    try {
      replaceFile(file, Buffer.from(text));
    } catch (error) {
      if (recorded === null) rmSync(this.#fileOf(id), { force: true });
      else this.#put(id, recorded);
      throw error;
    }
  }

  /** Whether the file is as `link` or `unlink` left it, with the entry of this name. */
  isUnchanged(client: string, name: string): boolean {
    const known = this.get(client);
    const now = known === null ? null : bytesOf(known.file);
    return now !== null && digestOf(now) === known?.after && known.entries.some((one) => one.name === name);
  }

  /** Restores the file byte for byte; returns false if it has changed since, or has other entries of `link`. */
  restore(client: string, name: string): boolean {
    const known = this.get(client);
    if (known === null || known.entries.length > 1 || !this.isUnchanged(client, name)) return false;
    if (known.before === null) rmSync(known.file);
    else replaceFile(known.file, Buffer.from(known.before, 'base64'));
    this.forget(client, name);
    return true;
  }

  /** The text without the entry of this name. With the last name, the replaced servers come back: `putBack`. */
  without(
    client: ClientApp,
    name: string,
    text: string,
  ): { readonly after: string; readonly putBack: readonly string[] } {
    const known = this.get(client.id);
    const rest = withEntry(text, client, name, null);
    if (known === null || known.entries.some((one) => one.name !== name)) return { after: rest, putBack: [] };
    const missing = known.replaced.filter((one) => entryIn(rest, client, one.name) === undefined);
    return { after: withReplaced(rest, client, missing), putBack: missing.map((one) => one.name) };
  }

  /** Writes the file without the entry of this name: `text`. */
  remove(client: string, name: string, file: string, text: string): void {
    const bytes = Buffer.from(text);
    const unchanged = this.isUnchanged(client, name);
    replaceFile(file, bytes);
    this.forget(client, name, unchanged ? digestOf(bytes) : undefined);
  }

  /** `after`: what the file is now; absent if it has changed since. */
  forget(client: string, name: string, after?: string): void {
    const known = this.get(client);
    const entries = known?.entries.filter((one) => one.name !== name) ?? [];
    if (known === null || entries.length === 0) rmSync(this.#fileOf(client), { force: true });
    else this.#put(client, { ...known, entries, after: after ?? known.after });
  }

  #put(client: string, record: LinkRecord): void {
    writeFileSync(this.#fileOf(client), JSON.stringify(record), { mode: 0o600 });
  }

  #fileOf(client: string): string {
    return join(this.#folder, `${client}.json`);
  }
}

/** The bytes without the entries of the record, and with the servers that they replaced. */
function unlinkedBytes(bytes: Buffer | null, client: ClientApp, known: LinkRecord | null): Buffer | null {
  if (known === null || (bytes === null && known.replaced.length === 0)) return bytes;
  const rest = known.entries.reduce((text, { name }) => withEntry(text, client, name, null), textOf(bytes));
  return Buffer.from(withReplaced(rest, client, known.replaced));
}

/** Adds those whose names the text does not have. */
function withReplaced(text: string, client: ClientApp, replaced: readonly ReplacedServer[]): string {
  return replaced.reduce(
    (now, { name, entry }) => (entryIn(now, client, name) === undefined ? withEntry(now, client, name, entry) : now),
    text,
  );
}

/** The servers before that are not there after, or have the name of the link. Entries of earlier links are none. */
function replacedBy(
  before: Buffer | null,
  after: string,
  client: ClientApp,
  links: readonly LinkedGateway[],
  own: string,
): readonly ReplacedServer[] {
  const text = textOf(before);
  const kept = namesIn(after, client).filter((name) => name !== own);
  const gone = namesIn(text, client).filter((one) => !kept.includes(one) && !links.some(({ name }) => name === one));
  return gone.flatMap((name) => {
    const entry = entryIn(text, client, name);
    return entry === undefined ? [] : [{ name, entry: entry as object }];
  });
}

/** null if the file does not exist. */
export function bytesOf(file: string): Buffer | null {
  return existsSync(file) ? readFileSync(file) : null;
}

/** Throws NotEditable for bytes that are not UTF-8, which would not stay as they are. */
export function textOf(bytes: Buffer | null): string {
  if (bytes !== null && !isUtf8(bytes)) throw new NotEditable('it is not UTF-8');
  return bytes?.toString() ?? '';
}

/** Replaces the file atomically and keeps its mode; a symbolic link stays one. */
export function replaceFile(file: string, bytes: Buffer): void {
  const target = existsSync(file) ? realpathSync(file) : file;
  mkdirSync(dirname(target), { recursive: true });
  const scratch = `${target}.trunkline-${process.pid}`;
  try {
    writeFileSync(scratch, bytes, { mode: existsSync(target) ? statSync(target).mode & 0o777 : 0o600 });
    renameSync(scratch, target);
  } catch (error) {
    rmSync(scratch, { force: true });
    throw error;
  }
}

function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function linksOf({ flags, terminal }: Pick<CommandInput, 'flags' | 'terminal'>): Links {
  return new Links(flags.dataDir === undefined ? defaultDataDir(terminal.env) : resolve(terminal.cwd, flags.dataDir));
}

/** The installed clients, by whether they are linked to the gateway with this endpoint. */
export function clientsByLink(
  input: Pick<CommandInput, 'flags' | 'terminal'>,
  mcpUrl: string,
): {
  readonly linked: readonly ClientApp[];
  readonly others: readonly ClientApp[];
} {
  const links = linksOf(input);
  const isLinked = ({ id }: ClientApp): boolean =>
    links.get(id)?.entries.some(({ url = mcpUrl }) => url === mcpUrl) === true;
  const installed = clientsHere(input.terminal.env).filter(isInstalled);
  const { linked = [], others = [] } = Object.groupBy(installed, (one) => (isLinked(one) ? 'linked' : 'others'));
  return { linked, others };
}
