import type { EndedSpan, SpanExporter } from '../../src/telemetry/tracing.ts';

/** Keeps every span, in the order in which they ended. */
export class SpanLog implements SpanExporter {
  readonly spans: EndedSpan[] = [];

  export(span: EndedSpan): void {
    this.spans.push(span);
  }

  /** The span of that name and kind; there is one. */
  one(name: string, kind: EndedSpan['kind']): EndedSpan {
    const found = this.spans.filter((span) => span.name === name && span.kind === kind);
    if (found.length !== 1) throw new Error(`${found.length} spans ${name} of kind ${kind}`);
    return found[0]!;
  }
}
