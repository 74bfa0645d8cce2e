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

/** What a file was before `link`, so that `unlink` can make it that again. */
interface LinkRecord {
  readonly file: string;
  /** Base64; null where there was no file. */
  readonly before: string | null;
  /** SHA-256 of what `link` wrote. */
  readonly after: string;
  readonly name: string;
}

/** The files of clients that `link` has changed. Kept for the user alone: they may hold keys. */
export class Links {
  readonly #folder: string;

  constructor(dataDir: string) {
    this.#folder = join(dataDir, 'links');
  }

  get(client: string): LinkRecord | null {
    try {
      return JSON.parse(readFileSync(this.#fileOf(client), 'utf8')) as LinkRecord;
    } catch {
      // There is none, or it is damaged: the entry alone is taken out then.
      return null;
    }
  }

  /** Writes the file, and keeps what it was. A second time it keeps what it was before the first. */
  write(client: string, file: string, before: Buffer | null, text: string, name: string): void {
    const known = this.get(client);
    const continues = known !== null && known.file === file && before !== null && known.after === digestOf(before);
    const first = continues ? known.before : (before?.toString('base64') ?? null);
    const record: LinkRecord = { file, before: first, after: digestOf(Buffer.from(text)), name };
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    writeFileSync(this.#fileOf(client), JSON.stringify(record), { mode: 0o600 });
    replaceFile(file, Buffer.from(text));
  }

  /** Makes the file what it was, to the byte; false where it was changed since. */
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

  #fileOf(client: string): string {
    return join(this.#folder, `${client}.json`);
  }
}

/** null where there is no such file. */
export function bytesOf(file: string): Buffer | null {
  return existsSync(file) ? readFileSync(file) : null;
}

/** In one step, with its mode; a symbolic link stays one. */
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

/** The clients that are installed, by whether they were linked. */
export function clientsByLink(input: Pick<CommandInput, 'flags' | 'terminal'>): {
  readonly linked: readonly ClientApp[];
  readonly others: readonly ClientApp[];
} {
  const links = linksOf(input);
  const { linked = [], others = [] } = Object.groupBy(clientsHere(input.terminal.env).filter(isInstalled), ({ id }) =>
    links.get(id) === null ? 'others' : 'linked',
  );
  return { linked, others };
}
