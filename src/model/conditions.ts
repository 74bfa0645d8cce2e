import { type Infer, named, oneOf } from './schema.ts';

/** Conditions that an operator has to resolve. */
export const CONDITION = named(
  'Condition',
  oneOf([
    'server_down',
    'login_needed',
    'drift_blocked',
    'node_lost',
    'bus_lost',
    'store_unreachable',
    'configuration_unreadable',
    'disk_not_writable',
    'memory_short',
    'processes_near_limit',
    'sessions_near_limit',
  ]),
);
export type ConditionName = Infer<typeof CONDITION>;
