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

/** Begins spans for an exporter. Rooms without a tracer make none, and pay a comparison with null. */
export class Tracer {
  readonly #exporter: SpanExporter;
  readonly #clock: Clock;
  readonly #random: Random;

  constructor(exporter: SpanExporter, clock: Clock, random: Random) {
    this.#exporter = exporter;
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * `parent`: its `traceparent`; one that is malformed counts as none, which begins a trace. Null where the parent says that
   * its trace is not recorded: nothing is exported then, and the parent is passed on as it is.
   */
  begin(
    name: string,
    kind: SpanKind,
    attributes: SpanAttributes,
    parent: string | null,
    links: readonly string[] = [],
  ): OpenSpan | null {
    const [, traceId = this.#random.hex(16), parentId = null, flags = '01'] = TRACEPARENT.exec(parent ?? '') ?? [];
    if ((Number.parseInt(flags, 16) & 1) === 0) return null;
    const spanId = this.#random.hex(8);
    const startedAt = this.#clock.wall();
    const since = this.#clock.now();
    return {
      traceparent: `00-${traceId}-${spanId}-01`,
      end: (error) => {
        const durationMs = this.#clock.now() - since;
        const all = error === null ? attributes : { ...attributes, 'error.type': error };
        this.#exporter.export({
          traceId,
          spanId,
          parentId,
          name,
          kind,
          links: links.filter((link) => TRACEPARENT.test(link)),
          attributes: all,
          startedAt,
          durationMs,
        });
      },
    };
  }
}

interface OpenSpan {
  /** For its children, and for peers. */
  readonly traceparent: string;
  /** Once. `error`: what kind of failure it ended in. */
  end(error: string | null): void;
}
