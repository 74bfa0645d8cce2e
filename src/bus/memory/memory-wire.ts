import { subjectMatches } from '../subjects.ts';
import type { Wire, WireChange, WireMessage, WireStatus } from '../wire.ts';

interface MemorySubscription {
  readonly wire: MemoryWire;
  readonly subject: string;
  readonly queue: string | null;
  readonly deliver: (message: WireMessage) => void;
}

const MAX_PAYLOAD = 1024 * 1024;

/** A messaging system in the memory of one process, for tests and for embedded clusters whose nodes share it. */
export class MemoryHub {
  readonly maxPayload: number;
  readonly subscriptions = new Set<MemorySubscription>();
  #next = 0;

  constructor(maxPayload = MAX_PAYLOAD) {
    this.maxPayload = maxPayload;
  }

  open(): MemoryWire {
    return new MemoryWire(this);
  }

  publish(from: MemoryWire, subject: string, payload: Buffer, reply?: string): void {
    const groups = new Map<string, MemorySubscription[]>();
    let delivered = false;
    const message = memoryMessage(subject, payload, reply);
    for (const subscription of this.subscriptions) {
      if (!subscription.wire.reaches || !subjectMatches(subscription.subject, subject)) continue;
      delivered = true;
      if (subscription.queue === null) deliverSoon(subscription, message);
      else {
        const group = `${subscription.subject} ${subscription.queue}`;
        const members = groups.get(group);
        if (members === undefined) groups.set(group, [subscription]);
        else members.push(subscription);
      }
    }
    for (const members of groups.values()) deliverSoon(members[this.#next++ % members.length]!, message);
    if (delivered || reply === undefined) return;
    const unanswered = { ...memoryMessage(reply, Buffer.alloc(0)), noResponders: true };
    for (const subscription of this.subscriptions) {
      if (subscription.wire === from && subjectMatches(subscription.subject, reply))
        deliverSoon(subscription, unanswered);
    }
  }
}

export class MemoryWire implements Wire {
  readonly #hub: MemoryHub;
  #closed = false;

  constructor(hub: MemoryHub) {
    this.#hub = hub;
  }

  get connected(): boolean {
    return !this.#closed;
  }

  /** Whether messages get through; a test overrides it to cut the connection. */
  get reaches(): boolean {
    return this.connected;
  }

  get maxPayload(): number {
    return this.#hub.maxPayload;
  }

  get status(): WireStatus {
    const state = this.#closed ? 'closed' : 'connected';
    return { state, server: '', version: '', lacks: [], lastError: '', reconnects: 0 };
  }

  publish(subject: string, payload: Buffer, reply?: string): void {
    if (this.reaches) this.#hub.publish(this, subject, payload, reply);
  }

  flush(): Promise<void> {
    return this.reaches ? Promise.resolve() : new Promise(() => {});
  }

  subscribe(subject: string, deliver: (message: WireMessage) => void, queue?: string): { close(): Promise<void> } {
    const subscription: MemorySubscription = { wire: this, subject, queue: queue ?? null, deliver };
    this.#hub.subscriptions.add(subscription);
    const close = (): Promise<void> => {
      this.#hub.subscriptions.delete(subscription);
      // By then, the microtasks have delivered earlier messages.
      return new Promise((resolve) => setImmediate(resolve));
    };
    return { close };
  }

  /** Never calls the listener: a connection within the process is never lost. */
  onChange(_listener: (change: WireChange) => void): () => void {
    return () => {};
  }

  async close(): Promise<void> {
    this.#closed = true;
    const { subscriptions } = this.#hub;
    for (const subscription of subscriptions) if (subscription.wire === this) subscriptions.delete(subscription);
  }
}

function deliverSoon(subscription: MemorySubscription, message: WireMessage): void {
  queueMicrotask(() => {
    if (subscription.wire.reaches) subscription.deliver(message);
  });
}

function memoryMessage(subject: string, payload: Buffer, reply = ''): WireMessage {
  return { subject, payload, reply, noResponders: false, header: () => null };
}
