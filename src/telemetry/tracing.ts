import type { Clock } from '../model/clock.ts';
import type { Random } from '../model/random.ts';

/** A span that has ended, with ids of W3C Trace Context. */
export interface EndedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Null for the root span of the trace. */
  readonly parentId: string | null;
  readonly name: string;
  readonly kind: SpanKind;
  /** `traceparent` values of spans in other traces. */
  readonly links: readonly string[];
  readonly attributes: SpanAttributes;
  /** Wall clock. */
  readonly startedAt: number;
  readonly durationMs: number;
}

/** `server`: an incoming request. `client`: a request to a server. `internal`: anything else. */
type SpanKind = 'server' | 'client' | 'internal';

/** Named by the OpenTelemetry conventions for MCP; `error.type` is present if the operation failed. */
type SpanAttributes = Readonly<Record<string, string>>;

/** Receives every span that ends. Must neither block nor throw. */
export interface SpanExporter {
  export(span: EndedSpan): void;
}

/** Limited in length, because a span keeps its ids, and with them the text that they are slices of. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.{0,400})?$/;

const RPC_CODE = /^-?\d+$/;

/**
 * Begins spans for an exporter. A request without a parent begins a trace, which is sampled; all other spans need a parent and
 * follow its sampling. Modules without a tracer only compare with null.
 */
export class Tracer {
  readonly exporter: SpanExporter;
  readonly clock: Clock;
  readonly #random: Random;
  readonly #sample: number;
  /** The span that began last: most following spans are its children, and its ids are known without parsing. */
  #last: OpenSpan | null = null;

  /** `sample`: the share of the traces that begin here, 0 to 1. */
  constructor(exporter: SpanExporter, clock: Clock, random: Random, sample = 1) {
    this.exporter = exporter;
    this.clock = clock;
    this.#random = random;
    this.#sample = sample;
  }

  /**
   * `parent`: the `traceparent` of the parent; a malformed one counts as none. Returns null for a span that is not recorded:
   * the caller then passes the parent on unchanged.
   */
  begin(kind: SpanKind, parent: string | null): OpenSpan | null {
    const last = this.#last;
    if (parent !== null && last?.traceparent === parent) return this.#open(kind, last.traceId, last.spanId);
    const known = parent === null ? null : TRACEPARENT.exec(parent);
    if (known === null) {
      if (kind !== 'server' || this.#random.unit() >= this.#sample) return null;
      return this.#open(kind, this.#random.hex(16), null);
    }
    const [, traceId, parentId, flags] = known;
    return (Number.parseInt(flags!, 16) & 1) === 0 ? null : this.#open(kind, traceId!, parentId!);
  }

  #open(kind: SpanKind, traceId: string, parentId: string | null): OpenSpan {
    this.#last = new OpenSpan(this, kind, traceId, this.#random.hex(8), parentId);
    return this.#last;
  }
}

/** A span that is recorded. */
export class OpenSpan {
  /** For children of the span, and for peers. */
  readonly traceparent: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly #tracer: Tracer;
  readonly #kind: SpanKind;
  readonly #parentId: string | null;
  readonly #startedAt: number;
  readonly #since: number;
  #name = '';
  #attributes: Record<string, string> = {};
  #links: readonly string[] = [];

  constructor(tracer: Tracer, kind: SpanKind, traceId: string, spanId: string, parentId: string | null) {
    this.#tracer = tracer;
    this.#kind = kind;
    this.traceId = traceId;
    this.spanId = spanId;
    this.#parentId = parentId;
    this.#startedAt = tracer.clock.wall();
    this.#since = tracer.clock.now();
    this.traceparent = `00-${traceId}-${spanId}-01`;
  }

  /** Takes ownership of `attributes`. `links`: `traceparent` of spans in other traces; malformed ones are left out. */
  describe(name: string, attributes: Record<string, string>, links: readonly string[] = []): this {
    this.#name = name;
    this.#attributes = attributes;
    this.#links = links.filter((link) => TRACEPARENT.test(link));
    return this;
  }

  /** Call once. `error`: the kind of failure; null for success. */
  end(error: string | null): void {
    const { exporter, clock } = this.#tracer;
    if (error !== null) {
      this.#attributes['error.type'] = error;
      if (RPC_CODE.test(error)) this.#attributes['rpc.response.status_code'] = error;
    }
    exporter.export({
      traceId: this.traceId,
      spanId: this.spanId,
      parentId: this.#parentId,
      name: this.#name,
      kind: this.#kind,
      links: this.#links,
      attributes: this.#attributes,
      startedAt: this.#startedAt,
      durationMs: clock.now() - this.#since,
    });
  }
}
