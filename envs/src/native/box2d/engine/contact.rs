//! Contacts: pairs of fixtures whose bounding boxes overlap.

use serde::{Deserialize, Serialize};

use super::{
    body::{Body, Fixture},
    collide_edge::collide_edge_and_polygon,
    collide_polygons::collide_polygons,
    manifold::Manifold,
    math::max,
    shape::Shape,
};

/// The start or the end of a contact between two bodies.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct ContactEvent {
    pub(in crate::native) began: bool,
    pub(in crate::native) bodies: [usize; 2],
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Contact {
    pub(super) fixtures: [usize; 2],
    pub(super) bodies: [usize; 2],
    pub(super) manifold: Manifold,
    pub(super) friction: f32,
    pub(super) restitution: f32,
    pub(super) touching: bool,
    pub(super) enabled: bool,
    /// Whether the contact is in an island of the current step.
    #[serde(skip)]
    pub(super) in_island: bool,
    /// Time of impact as a fraction of the current step, if computed.
    #[serde(skip)]
    pub(super) toi: Option<f32>,
    #[serde(skip)]
    pub(super) toi_count: u32,
}

impl Contact {
    /// Creates a contact; `None` for two edges, which do not collide.
    pub(super) fn new(mut a: usize, mut b: usize, fixtures: &[Fixture]) -> Option<Self> {
        match (&fixtures[a].shape, &fixtures[b].shape) {
            (Shape::Edge(_), Shape::Edge(_)) => return None,
            (Shape::Polygon(_), Shape::Edge(_)) => (a, b) = (b, a),
            _ => {}
        }
        let one = &fixtures[a];
        let two = &fixtures[b];
        Some(Self {
            fixtures: [a, b],
            bodies: [one.body, two.body],
            friction: (one.friction * two.friction).sqrt(),
            restitution: max(one.restitution, two.restitution),
            enabled: true,
            ..Self::default()
        })
    }

    pub(super) fn joins(&self, body: usize) -> bool {
        self.bodies.contains(&body)
    }

    /// Returns the other body of the contact.
    pub(super) fn other(&self, body: usize) -> usize {
        if self.bodies[0] == body { self.bodies[1] } else { self.bodies[0] }
    }

    /// Computes the contact points from the current transforms. Points that persist keep their impulses.
    pub(super) fn update(
        &mut self,
        bodies: &mut [Body],
        fixtures: &[Fixture],
        events: &mut Vec<ContactEvent>,
    ) {
        let old = self.manifold.points;
        let old = &old[..self.manifold.count];
        self.enabled = true;
        let was_touching = self.touching;
        let [a, b] = self.fixtures.map(|fixture| &fixtures[fixture]);
        let [transform_a, transform_b] = self.bodies.map(|body| bodies[body].transform);
        match (&a.shape, &b.shape) {
            (Shape::Edge(edge), Shape::Polygon(polygon)) => {
                collide_edge_and_polygon(&mut self.manifold, edge, &transform_a, polygon, &transform_b);
            }
            (Shape::Polygon(one), Shape::Polygon(two)) => {
                collide_polygons(&mut self.manifold, one, &transform_a, two, &transform_b);
            }
            (_, Shape::Edge(_)) => self.manifold.count = 0,
        }
        self.touching = self.manifold.count > 0;
        let count = self.manifold.count;
        for point in &mut self.manifold.points[..count] {
            let before = old.iter().find(|before| before.id == point.id);
            (point.normal_impulse, point.tangent_impulse) =
                before.map_or((0.0, 0.0), |before| (before.normal_impulse, before.tangent_impulse));
        }
        if self.touching != was_touching {
            for body in self.bodies {
                bodies[body].wake();
            }
            events.push(ContactEvent { began: self.touching, bodies: self.bodies });
        }
    }
}
