import type { DefinitionName, DriftRecord, DriftReport, DriftSummary } from '../model/drift.ts';

/** What became of a decision: it is durable and in force, or nothing of it was taken. */
export type Decided =
  | { readonly ok: true }
  | { readonly ok: false; readonly code: 'outdated' | 'not_stored' | 'no_shared_store'; readonly message: string };

/** Pins and drift, as the control API works on them. Implemented by `app/`. */
export interface DriftPlane {
  report(server: string): Promise<DriftReport>;
  summary(server: string): DriftSummary;
  approve(
    server: string,
    decisions: readonly (DefinitionName & { readonly digest: string | null })[],
    by: string,
  ): Promise<Decided>;
  block(server: string, names: readonly DefinitionName[], by: string): Promise<Decided>;
  history(
    server: string,
    options: { readonly limit: number; readonly after?: string },
  ): Promise<readonly DriftRecord[]>;
}
