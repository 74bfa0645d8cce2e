import type { DriftSummary } from '../model/drift.ts';
import type { ServerStatus } from '../model/server-state.ts';
import type { ControlPlane, DesiredView } from './control-plane.ts';
import { type StatusView, statusView } from './status-view.ts';

/** A server as the control API shows it: what is observed, and what is desired. */
export function serverView(
  status: ServerStatus,
  plane: Pick<ControlPlane, 'desired' | 'drift'>,
): StatusView & { readonly desired: DesiredView | null; readonly drift: DriftSummary } {
  return { ...statusView(status), desired: plane.desired(status.name), drift: plane.drift.summary(status.name) };
}
