import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { FolderUnusable } from './data-folder.ts';
import { syncPath } from './run-time-store/run-time-store-file.ts';

const KEY = /^[0-9a-f]{64}$/;

/**
 * `credentials.key` of a data folder, beside the database that it seals: one key per line, the current one first; further
 * ones only while it is being changed. Several processes may have the folder open and any of them may change the key, so
 * each use checks for a newer file.
 */
export class CredentialKeys {
  readonly #path: string;
  readonly #make: () => string;
  #stamp = '';
  #keys: readonly Buffer[] = [];

  /** `make` returns a new key as hexadecimal digits. */
  constructor(path: string, make: () => string) {
    this.#path = path;
    this.#make = make;
  }

  /** Creates the file if it is missing. Throws FolderUnusable if it cannot be read or holds something else. */
  get keys(): readonly Buffer[] {
    const stamp = this.#fileStamp();
    if (stamp !== null && stamp === this.#stamp) return this.#keys;
    if (stamp === null) this.#create();
    // Taken before reading: if the file is replaced meanwhile, the next use reads the new one.
    this.#stamp = this.#fileStamp() ?? '';
    this.#keys = this.#read();
    return this.#keys;
  }

  /** Puts a new key in force; older seals can be opened until `finishRotation`. */
  beginRotation(): void {
    this.#replace([this.#make(), ...this.keys.map((key) => key.toString('hex'))]);
  }

  /** Removes all keys except the current one. */
  finishRotation(): void {
    const [inForce] = this.keys;
    this.#replace([inForce!.toString('hex')]);
  }

  #fileStamp(): string | null {
    const found = fs.statSync(this.#path, { throwIfNoEntry: false, bigint: true });
    return found === undefined ? null : `${found.ino} ${found.mtimeNs} ${found.size}`;
  }

  #read(): readonly Buffer[] {
    const text = this.#attempt(() => {
      fs.chmodSync(this.#path, 0o600);
      return fs.readFileSync(this.#path, 'utf8');
    });
    const lines = text.trim().split('\n');
    if (!lines.every((line) => KEY.test(line))) throw this.#unusable('it holds no key');
    return lines.map((line) => Buffer.from(line, 'hex'));
  }

  /** If two processes create the file at the same time, one succeeds and both use its file. */
  #create(): void {
    const fresh = this.#write([this.#make()]);
    try {
      fs.linkSync(fresh, this.#path);
      syncPath(dirname(this.#path));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw this.#unusable((error as Error).message, error);
    } finally {
      fs.rmSync(fresh, { force: true });
    }
  }

  /** Durable when it returns: losing a key loses everything that it sealed. */
  #replace(keys: readonly string[]): void {
    const fresh = this.#write(keys);
    this.#attempt(() => {
      fs.renameSync(fresh, this.#path);
      syncPath(dirname(this.#path));
    });
  }

  #write(keys: readonly string[]): string {
    const fresh = `${this.#path}.${process.pid}.new`;
    this.#attempt(() => {
      fs.rmSync(fresh, { force: true });
      fs.writeFileSync(fresh, `${keys.join('\n')}\n`, { mode: 0o600, flag: 'wx', flush: true });
    });
    return fresh;
  }

  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw this.#unusable((error as Error).message, error);
    }
  }

  #unusable(why: string, cause?: unknown): FolderUnusable {
    const remedy =
      'put the file back from a backup; or remove it, sign in to the servers again and set the secrets again';
    return new FolderUnusable(`the key of credentials ${this.#path} cannot be used: ${why}`, remedy, { cause });
  }
}
