import type { Clock } from '../model/clock.ts';
import type { Random } from '../model/random.ts';

/** A span that has ended. Ids are those of W3C Trace Context. */
export interface EndedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Null for the first of its trace. */
  readonly parentId: string | null;
  readonly name: string;
  readonly kind: SpanKind;
  /** `traceparent` of spans in other traces. */
  readonly links: readonly string[];
  readonly attributes: SpanAttributes;
  /** Wall clock. */
  readonly startedAt: number;
  readonly durationMs: number;
}

/** `server`: a request came in. `client`: a request went to a server. `internal`: all else. */
type SpanKind = 'server' | 'client' | 'internal';

/** By the names of the OpenTelemetry conventions for MCP; `error.type` is present where it failed. */
type SpanAttributes = Readonly<Record<string, string>>;

/** Takes every span that ends. It must neither block nor throw. */
export interface SpanExporter {
  export(span: EndedSpan): void;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

const RPC_CODE = /^-?\d+$/;

/**
 * Begins spans for an exporter. A request without a parent begins a trace, which is sampled; all other spans follow their parent,
 * and need one. Rooms without a tracer make none, and pay a comparison with null.
 */
export class Tracer {
  readonly exporter: SpanExporter;
  readonly clock: Clock;
  readonly #random: Random;
  readonly #sample: number;
  /** The span that began last: the parent of most that follow, whose ids are known without parsing. */
  #last: OpenSpan | null = null;

  /** `sample`: the share of the traces that begin here, 0 to 1. */
  constructor(exporter: SpanExporter, clock: Clock, random: Random, sample = 1) {
    this.exporter = exporter;
    this.clock = clock;
    this.#random = random;
    this.#sample = sample;
  }

  /**
   * `parent`: its `traceparent`; one that is malformed counts as none. Null for a span that is not recorded: the parent is
   * passed on as it is then.
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
  /** For its children, and for peers. */
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

  /** `attributes` become the span's own. `links`: `traceparent` of spans in other traces; those that are malformed are left out. */
  describe(name: string, attributes: Record<string, string>, links: readonly string[] = []): this {
    this.#name = name;
    this.#attributes = attributes;
    this.#links = links.filter((link) => TRACEPARENT.test(link));
    return this;
  }

  /** Once. `error`: what kind of failure it ended in. */
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
