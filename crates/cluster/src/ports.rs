//! The ports of a pod at which it serves. Each is an endpoint of its own: a rank of a data-parallel server.

/// One to eight ports, in order, no port twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetPorts(Vec<u16>);

/// Not ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPorts {
    /// None at all.
    #[error("at least one target port is needed")]
    None,
    /// Too many.
    #[error("at most {MOST} target ports may be given, not {0}")]
    TooMany(usize),
}

/// As many as an InferencePool may have.
const MOST: usize = 8;

impl TargetPorts {
    /// These; a repeated one counts once.
    ///
    /// # Errors
    /// Where there is none, or more than eight.
    pub fn new(ports: impl IntoIterator<Item = u16>) -> Result<Self, InvalidPorts> {
        let mut distinct = Vec::new();
        for port in ports {
            if !distinct.contains(&port) {
                distinct.push(port);
            }
        }
        match distinct.len() {
            0 => Err(InvalidPorts::None),
            1..=MOST => Ok(Self(distinct)),
            many => Err(InvalidPorts::TooMany(many)),
        }
    }

    /// Those that are active by a pod's annotation, with their ranks: a list of numbers, in which what is none of the ports
    /// doesn't count. Without the annotation all are.
    pub(crate) fn active<'a>(&'a self, annotation: Option<&'a str>) -> impl Iterator<Item = (usize, u16)> + 'a {
        let ranked = self.0.iter().copied().enumerate();
        ranked.filter(move |(_, port)| annotation.is_none_or(|list| list.split(',').any(|one| is(one, *port))))
    }

    pub(crate) fn contains(&self, port: i64) -> bool {
        self.0.iter().any(|own| i64::from(*own) == port)
    }
}

fn is(text: &str, port: u16) -> bool {
    text.trim().parse() == Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_one_to_eight() {
        assert_eq!(TargetPorts::new([8000, 8001, 8000]), Ok(TargetPorts(vec![8000, 8001])));
        assert_eq!(TargetPorts::new([]), Err(InvalidPorts::None));
        assert_eq!(TargetPorts::new(1..=9), Err(InvalidPorts::TooMany(9)));
    }

    #[test]
    fn a_pod_says_which_of_its_ports_are_active() {
        let ports = TargetPorts::new([8000, 8001, 8002]).expect("three");
        let active = |annotation| ports.active(annotation).collect::<Vec<_>>();
        assert_eq!(active(None), [(0, 8000), (1, 8001), (2, 8002)]);
        assert_eq!(active(Some(" 8002 ,8001, 8002")), [(1, 8001), (2, 8002)]);
        assert_eq!(active(Some("9000,-1,x,70000,,8000")), [(0, 8000)]);
        assert_eq!(active(Some("")), []);
    }
}
