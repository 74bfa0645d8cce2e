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
import { defaultDataDir } from '../../app/running.ts';
import type { CommandInput } from '../command-input.ts';

/** State of a file before `link`, for `unlink` to restore. */
interface LinkRecord {
  readonly file: string;
  /** Base64; null if the file did not exist. */
  readonly before: string | null;
  /** SHA-256 of what `link` wrote. */
  readonly after: string;
  readonly name: string;
  /** The address that `link` wrote; absent in records of earlier versions. */
  readonly url?: string;
}

/** The client files that `link` has changed. Readable by the user alone, since the files may contain keys. */
export class Links {
  readonly #folder: string;

  constructor(dataDir: string) {
    this.#folder = join(dataDir, 'links');
  }

  get(client: string): LinkRecord | null {
    try {
      return JSON.parse(readFileSync(this.#fileOf(client), 'utf8')) as LinkRecord;
    } catch {
      // Without a valid record `unlink` removes the entry alone.
      return null;
    }
  }

  /** Writes the file and records its earlier content: that before the first link, unless the file has changed since. */
  write(client: string, file: string, before: Buffer | null, text: string, as: Pick<LinkRecord, 'name' | 'url'>): void {
    const known = this.get(client);
    const continues = known !== null && known.file === file && before !== null && known.after === digestOf(before);
    const first = continues ? known.before : (before?.toString('base64') ?? null);
    const record: LinkRecord = { file, before: first, after: digestOf(Buffer.from(text)), ...as };
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#put(client, record);
    try {
      replaceFile(file, Buffer.from(text));
    } catch (error) {
      if (known === null) this.forget(client);
      else this.#put(client, known);
      throw error;
    }
  }

  /** Restores the file byte for byte; returns false if the file has changed since. */
  restore(client: string): boolean {
    const known = this.get(client);
    const now = known === null ? null : bytesOf(known.file);
    if (known === null || now === null || digestOf(now) !== known.after) return false;
    if (known.before === null) rmSync(known.file);
    else replaceFile(known.file, Buffer.from(known.before, 'base64'));
    this.forget(client);
    return true;
  }

  forget(client: string): void {
    rmSync(this.#fileOf(client), { force: true });
  }

  #put(client: string, record: LinkRecord): void {
    writeFileSync(this.#fileOf(client), JSON.stringify(record), { mode: 0o600 });
  }

  #fileOf(client: string): string {
    return join(this.#folder, `${client}.json`);
  }
}

/** null if the file does not exist. */
export function bytesOf(file: string): Buffer | null {
  return existsSync(file) ? readFileSync(file) : null;
}

/** Replaces the file atomically and keeps its mode; a symbolic link stays one. */
export function replaceFile(file: string, bytes: Buffer): void {
  const target = existsSync(file) ? realpathSync(file) : file;
  mkdirSync(dirname(target), { recursive: true });
  const scratch = `${target}.trunkline-${process.pid}`;
  writeFileSync(scratch, bytes, { mode: existsSync(target) ? statSync(target).mode & 0o777 : 0o600 });
  renameSync(scratch, target);
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
  const isLinked = ({ id }: ClientApp): boolean => {
    const known = links.get(id);
    return known !== null && (known.url ?? mcpUrl) === mcpUrl;
  };
  const installed = clientsHere(input.terminal.env).filter(isInstalled);
  const { linked = [], others = [] } = Object.groupBy(installed, (one) => (isLinked(one) ? 'linked' : 'others'));
  return { linked, others };
}
