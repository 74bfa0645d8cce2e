import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * Files are read on the thread of everything else, which a file system that is gone (a dead network mount) would stop for
 * good. Whether they answer is found out on another thread before, as often as they are read without any sign that they
 * are there. A look that gets no answer keeps one of those threads; none is sent after it.
 */
export class FilesAnswer {
  readonly #look: (file: string) => Promise<void>;
  #looking: Promise<void> | null = null;

  constructor(look: (file: string) => Promise<void> = firstByte) {
    this.#look = look;
  }

  /** Resolves when every file has said something, be it that it is not there. Never rejects. */
  answered(files: readonly string[]): Promise<void> {
    this.#looking ??= this.#all(files).finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #all(files: readonly string[]): Promise<void> {
    for (const file of files) await this.#look(file).catch(() => {});
  }
}

async function firstByte(file: string): Promise<void> {
  const opened = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    await opened.read(Buffer.allocUnsafe(1), 0, 1, 0);
  } finally {
    await opened.close();
  }
}
