import { inspect } from 'node:util';

const MASK = '[redacted]';

/**
 * A value that must appear in no log, status, metric or error. Every way of printing it shows `[redacted]`;
 * `reveal` is the one way to the value, and easy to search for.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}
