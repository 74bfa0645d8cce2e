import { MemoryHub, MemoryWire } from '../../src/bus/memory/memory-wire.ts';
import type { WireChange, WireStatus } from '../../src/bus/wire.ts';

/** A messaging system in memory whose connections can be cut. */
export class CuttableHub extends MemoryHub {
  override open(): CuttableWire {
    return new CuttableWire(this);
  }
}

export class CuttableWire extends MemoryWire {
  readonly #listeners = new Set<(change: WireChange) => void>();
  #cut = false;
  #dead = false;
  #reconnects = 0;
  /** Messages under these subjects do not leave this end; the others do. */
  muted: RegExp | null = null;

  override publish(subject: string, payload: Buffer, reply?: string): void {
    if (this.muted?.test(subject) !== true) super.publish(subject, payload, reply);
  }

  override get connected(): boolean {
    return super.connected && !this.#cut;
  }

  override get reaches(): boolean {
    return this.connected && !this.#dead;
  }

  override get status(): WireStatus {
    const status: WireStatus = { ...super.status, reconnects: this.#reconnects };
    return this.#cut && status.state === 'connected' ? { ...status, state: 'disconnected', lastError: 'cut' } : status;
  }

  override onChange(listener: (change: WireChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Cuts the connection; messages in transit are lost. */
  cut(): void {
    if (!this.connected) return;
    this.#cut = true;
    this.#tell({ type: 'disconnected', reason: 'cut' });
  }

  /** As `cut`, but this end does not notice. */
  die(): void {
    this.#dead = true;
  }

  restore(): void {
    if (!this.#cut) return;
    this.#dead = false;
    this.#cut = false;
    this.#reconnects++;
    this.#tell({ type: 'connected', resync: true });
  }

  /** Reports a slow consumer: this end did not take its messages in time, and some were lost. */
  overrun(): void {
    this.#tell({ type: 'slow_consumer', subject: '>' });
  }

  #tell(change: WireChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}
