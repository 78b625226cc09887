//! Continuous collision detection: no body tunnels through a static one within a step.

use super::{
    body::{Body, Fixture},
    contact::Contact,
    time_of_impact::{Moving, time_of_impact},
    time_step::TimeStep,
    world::World,
};

const MAX_SUB_STEPS: u32 = 8;
const MAX_CONTACTS: usize = 32;
const MAX_BODIES: usize = 2 * MAX_CONTACTS;

impl World {
    /// Solves the impacts of this step one after the other, in order of time.
    pub(super) fn solve_toi(&mut self, step: &TimeStep) {
        for body in &mut self.bodies {
            body.in_island = false;
            body.sweep.alpha0 = 0.0;
        }
        for contact in &mut self.contacts {
            contact.in_island = false;
            contact.toi = None;
            contact.toi_count = 0;
        }
        while let Some((index, alpha)) = self.next_impact() {
            self.solve_impact(index, alpha, step);
        }
    }

    /// Returns the contact with the earliest impact, and its time as a fraction of the step.
    fn next_impact(&mut self) -> Option<(usize, f32)> {
        let Self { contacts, bodies, fixtures, .. } = self;
        let mut first = None;
        let mut min_alpha = 1.0;
        for (index, contact) in contacts.iter_mut().enumerate().rev() {
            if !contact.enabled || contact.toi_count > MAX_SUB_STEPS {
                continue;
            }
            let alpha = match contact.toi {
                Some(alpha) => alpha,
                None => match impact(contact, bodies, fixtures) {
                    Some(alpha) => *contact.toi.insert(alpha),
                    None => continue,
                },
            };
            if alpha < min_alpha {
                min_alpha = alpha;
                first = Some(index);
            }
        }
        first.filter(|_| min_alpha <= 1.0 - 10.0 * f32::EPSILON).map(|index| (index, min_alpha))
    }

    fn solve_impact(&mut self, index: usize, alpha: f32, step: &TimeStep) {
        let Self { contacts, bodies, fixtures, events, island, .. } = self;
        let contact = &mut contacts[index];
        let backups = contact.bodies.map(|body| bodies[body].sweep);
        for body in contact.bodies {
            bodies[body].advance(alpha);
        }
        contact.update(bodies, fixtures, events);
        contact.toi = None;
        contact.toi_count += 1;
        if !contact.touching {
            contact.enabled = false;
            for (body, backup) in contact.bodies.into_iter().zip(backups) {
                bodies[body].sweep = backup;
                bodies[body].synchronize_transform();
            }
            return;
        }
        island.clear();
        contact.in_island = true;
        island.contacts.push(index);
        let colliding = contact.bodies;
        for body in colliding {
            bodies[body].wake();
            island.add_body(body, bodies);
            bodies[body].in_island = true;
        }
        for body in colliding {
            if !bodies[body].is_dynamic {
                continue;
            }
            for index in (0..contacts.len()).rev() {
                if island.bodies.len() == MAX_BODIES || island.contacts.len() == MAX_CONTACTS {
                    break;
                }
                let contact = &mut contacts[index];
                if !contact.joins(body) || contact.in_island {
                    continue;
                }
                let other = contact.other(body);
                // Two dynamic bodies may overlap until the next step.
                if bodies[other].is_dynamic {
                    continue;
                }
                let backup = bodies[other].sweep;
                if !bodies[other].in_island {
                    bodies[other].advance(alpha);
                }
                contact.update(bodies, fixtures, events);
                if !contact.touching {
                    bodies[other].sweep = backup;
                    bodies[other].synchronize_transform();
                    continue;
                }
                contact.in_island = true;
                island.contacts.push(index);
                if !bodies[other].in_island {
                    bodies[other].in_island = true;
                    island.add_body(other, bodies);
                }
            }
        }
        let dt = (1.0 - alpha) * step.dt;
        let places = colliding.map(|body| bodies[body].island_index);
        island.solve_toi(dt, step.velocity_iterations, places, bodies, contacts);
        for place in 0..self.island.bodies.len() {
            let body = self.island.bodies[place];
            self.bodies[body].in_island = false;
            if !self.bodies[body].is_dynamic {
                continue;
            }
            self.synchronize_fixtures(body);
            for contact in self.contacts.iter_mut().filter(|contact| contact.joins(body)) {
                contact.toi = None;
                contact.in_island = false;
            }
        }
        self.find_new_contacts();
    }
}

/// Returns the time of impact of a contact, 1 if there is none; `None` if the contact needs no check.
fn impact(contact: &Contact, bodies: &mut [Body], fixtures: &[Fixture]) -> Option<f32> {
    let [a, b] = contact.bodies;
    let any_active = bodies[a].is_active() || bodies[b].is_active();
    let any_static = !bodies[a].is_dynamic || !bodies[b].is_dynamic;
    if !any_active || !any_static {
        return None;
    }
    // Brings both sweeps to the same start time.
    let alpha_a = bodies[a].sweep.alpha0;
    let alpha_b = bodies[b].sweep.alpha0;
    let mut alpha0 = alpha_a;
    if alpha_a < alpha_b {
        alpha0 = alpha_b;
        bodies[a].sweep.advance(alpha0);
    } else if alpha_b < alpha_a {
        bodies[b].sweep.advance(alpha0);
    }
    let [one, two] = contact.fixtures.map(|fixture| fixtures[fixture].shape.proxy());
    let one = Moving { proxy: one, sweep: bodies[a].sweep };
    let two = Moving { proxy: two, sweep: bodies[b].sweep };
    Some(time_of_impact(one, two).map_or(1.0, |beta| {
        let alpha = alpha0 + (1.0 - alpha0) * beta;
        if alpha < 1.0 { alpha } else { 1.0 }
    }))
}
